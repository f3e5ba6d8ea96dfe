"""Sends all requests to a vCenter, and only those that read: other methods are never sent.

session = Session(address, credentials)
session.content.rootFolder          # pyVmomi's objects; all their calls pass through here
session.read_file(place, offset=0, most=65536)

A call retries temporary errors: if the session has expired, it logs in again; if the vCenter is
busy (503, 429) or does not answer, it waits longer each time. Permanent errors raise VCenterError.
"""

from __future__ import annotations

import gzip
import os
import re
import ssl
import stat
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode
from xml.parsers.expat import ExpatError

import orjson
from pyVmomi import SoapStubAdapter, StubAdapterBase, vim
from pyVmomi.Security import ThumbprintMismatchException
from pyVmomi.SoapAdapter import SoapResponseDeserializer
from pyVmomi.VmomiSupport import versionMap

from stunwatch.ingest.vcenter.pace import wait_seconds

READING_METHODS: Final = frozenset(
    {
        # session
        *("RetrieveServiceContent", "CurrentTime", "Login", "Logout"),
        # Properties. Filters and views belong to a session and end with it.
        *("Fetch", "RetrieveProperties", "RetrievePropertiesEx", "ContinueRetrievePropertiesEx"),
        *("CreatePropertyCollector", "DestroyPropertyCollector", "CancelRetrievePropertiesEx"),
        *("CreateFilter", "DestroyPropertyFilter"),
        *("CreateContainerView", "CreateListView", "DestroyView"),
        *("WaitForUpdatesEx", "CheckForUpdates", "CancelWaitForUpdates"),
        # counters
        *("QueryPerf", "QueryPerfCounter", "QueryAvailablePerfMetric", "QueryPerfProviderSummary"),
        # Events and tasks. A collector belongs to a session.
        *("QueryEvents", "CreateCollectorForEvents", "CreateCollectorForTasks"),
        *("ReadNextEvents", "ReadNextTasks", "ReadPreviousEvents", "ReadPreviousTasks"),
        *("ResetCollector", "RewindCollector", "DestroyCollector", "SetCollectorPageSize"),
        # settings and permissions
        *("QueryOptions", "QueryDateTime", "HasPrivilegeOnEntities", "HasUserPrivilegeOnEntities"),
        *("FetchUserPrivilegeOnEntities", "RetrieveEntityPermissions"),
    }
)
"""Method names in SOAP requests. They change nothing except the session that calls them."""

TAGGING: Final = "/rest/com/vmware/cis/tagging"
READING_PATHS: Final = re.compile(
    rf"GET {TAGGING}/(?:tag|category)(?:/id:[\w:.-]+)?"
    rf"|POST {TAGGING}/tag-association\?~action=list-attached-objects-on-tags"
)
"""Allowed REST requests (method and path). They read tags, which SOAP does not offer."""
_REST_SESSION: Final = "/rest/com/vmware/cis/session"
_REST_HEADER: Final = "vmware-api-session-id"

_FOR_A_LOGIN: Final = frozenset({"RetrieveServiceContent", "Login"})

API_VERSION: Final = "vim25/6.0"
"""The API version to request. Every vCenter since 6.0 supports it; newer features are not used."""

CONNECTIONS: Final = 32
"""Connections kept open. More are opened if needed and closed afterwards."""

REQUEST_TIMEOUT_S: Final = 120.0
"""Timeout after which a vCenter counts as away. Longer than any wait for updates."""

_FILE_PATIENCE_S: Final = 10.0
_LARGEST_PAGE: Final = 4 << 20

_PASSING: Final = frozenset({429, 502, 503, 504})
_MOST_LOGINS: Final = 3
"""How many times in a row a call may log in again because its session expired."""

T = TypeVar("T")


class VCenterError(Exception):
    """The vCenter refused a request, or a setting is wrong. The text is a sentence."""


class AwayError(VCenterError):
    """The vCenter did not answer, or was too busy, for longer than the allowed wait."""


class StoppedError(Exception):
    """The collector is stopping; no more requests are sent."""


class NotReadingError(Exception):
    """The program tried to call a method that could change something: a programming error."""


class FileGoneError(VCenterError):
    """The file does not exist."""


class UnreadableError(VCenterError):
    """A file cannot be read now: its datastore, or the host that would read it, is unavailable."""


@dataclass(frozen=True)
class Address:
    """The address of a vCenter and how to verify it: by a public authority, by `ca_file`, or both.

    `thumbprint` is the SHA-256 of its certificate (64 hex digits; colons are ignored). That
    certificate is then trusted, whoever signed it.
    """

    host: str
    port: int = 443
    ca_file: Path | None = None
    thumbprint: str | None = None

    def __str__(self) -> str:
        return self.host if self.port == 443 else f"{self.host}:{self.port}"

    def context(self) -> ssl.SSLContext:
        """Return the TLS context that verifies its certificate."""
        return ssl.create_default_context(cafile=self.ca_file)


@dataclass(frozen=True)
class Credentials:
    """The user name and password for the login."""

    user: str
    password: str = field(repr=False)


def address_from(environment: Mapping[str, str] = os.environ) -> Address:
    """Read STUNWATCH_VCENTER (host, host:port), …_CA_FILE, …_THUMBPRINT. Raises VCenterError."""
    text = environment.get("STUNWATCH_VCENTER", "")
    found = re.fullmatch(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d{1,5}))?", text)
    if found is None:
        raise VCenterError(
            f"STUNWATCH_VCENTER is {text!r}. Set it to the vCenter's name: vcenter.lab.example."
            if text
            else "No vCenter given. Set STUNWATCH_VCENTER to its name: vcenter.lab.example."
        )
    thumbprint = environment.get("STUNWATCH_VCENTER_THUMBPRINT", "").replace(":", "").lower()
    if thumbprint and not re.fullmatch("[0-9a-f]{64}", thumbprint):
        raise VCenterError(
            "STUNWATCH_VCENTER_THUMBPRINT must be the certificate's SHA-256, 64 hex digits, as"
            " `openssl x509 -noout -fingerprint -sha256` prints it."
        )
    ca_file = environment.get("STUNWATCH_VCENTER_CA_FILE", "")
    if ca_file and not Path(ca_file).is_file():
        raise VCenterError(f"STUNWATCH_VCENTER_CA_FILE names {ca_file}, which does not exist.")
    return Address(
        found["host"],
        int(found["port"] or 443),
        Path(ca_file) if ca_file else None,
        thumbprint or None,
    )


def credentials_from(environment: Mapping[str, str] = os.environ) -> Credentials:
    """Read STUNWATCH_VCENTER_USER and …_PASSWORD, or the two lines of the file …_CREDENTIALS.

    Raises VCenterError.
    """
    if name := environment.get("STUNWATCH_VCENTER_CREDENTIALS", ""):
        return _credentials_in(Path(name))
    user = environment.get("STUNWATCH_VCENTER_USER", "")
    password = environment.get("STUNWATCH_VCENTER_PASSWORD", "")
    if not user or not password:
        raise VCenterError(
            "No vCenter user given. Set STUNWATCH_VCENTER_USER and STUNWATCH_VCENTER_PASSWORD, or"
            " set STUNWATCH_VCENTER_CREDENTIALS to a file of mode 600: the user on the first line,"
            " the password on the second."
        )
    return Credentials(user, password)


def _credentials_in(path: Path) -> Credentials:
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise VCenterError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}."
        ) from None
    if stat.S_IMODE(mode) & 0o077:
        raise VCenterError(f"Other users can read {path}. Run `chmod 600 {path}`.")
    if len(lines) < 2 or not all(lines[:2]):
        raise VCenterError(f"{path} must have two lines: the user, then the password.")
    return Credentials(lines[0], lines[1])


@dataclass(frozen=True)
class FilePlace:
    """A file or folder on a datastore: `app01/vmware.log` on `san-01` of datacenter `lab`."""

    datacenter: str
    """Its inventory path: `europe/lab`."""
    datastore: str
    path: str

    @property
    def url(self) -> str:
        query = urlencode({"dcPath": self.datacenter, "dsName": self.datastore}, quote_via=quote)
        return f"/folder/{quote(self.path)}?{query}"

    def __str__(self) -> str:
        return f"[{self.datastore}] {self.path}"


@dataclass(frozen=True)
class Part:
    """A part of a file."""

    data: bytes
    size: int
    """The size of the whole file at that moment, in bytes."""


class Session:
    """One login, renewed when it expires. Threads may share it."""

    def __init__(
        self,
        address: Address,
        credentials: Credentials,
        *,
        patience_s: float = 300.0,
        stop: threading.Event | None = None,
    ) -> None:
        """`patience_s`: how long a call retries if the vCenter is away. `stop` ends all waits."""
        self.address = address
        self.logins = 0
        """Number of logins. Filters and views of earlier logins no longer exist."""
        self.refusals = 0
        """How many times the vCenter was busy or away."""
        self._credentials = credentials
        self._patience_s = patience_s
        self._stop = stop or threading.Event()
        self._lock = threading.Lock()
        self._soap = SoapStubAdapter(
            host=address.host,
            port=address.port,
            version=versionMap[API_VERSION],
            sslContext=address.context(),
            thumbprint=address.thumbprint,
            poolSize=CONNECTIONS,
            httpConnectionTimeout=REQUEST_TIMEOUT_S,
        )
        self._stub = _ReadingStub(self._soap, self._send)
        self._undecoding_stub = _ReadingStub(self._soap, self._send_undecoded)
        self._content: Any = None
        self._rest_session: str | None = None

    @property
    def content(self) -> Any:
        """Return the vCenter's ServiceContent; log in if necessary."""
        if self._content is None:
            self._log_in(self.logins)
        return self._content

    def close(self) -> None:
        """Log out, if the vCenter still answers."""
        with self._lock:
            content, self._content = self._content, None
        if self._rest_session is not None:
            with suppress(OSError, HTTPException):
                self._exchange("DELETE", _REST_SESSION, {_REST_HEADER: self._rest_session})
        if content is not None:
            with suppress(vim.fault.NotAuthenticated, VCenterError, StoppedError):
                content.sessionManager.Logout()
            self._soap.DropConnections()

    def now(self) -> datetime:
        """Return the vCenter's own time in UTC."""
        told: datetime = vim.ServiceInstance("ServiceInstance", self._stub).CurrentTime()
        return told.astimezone(UTC)

    def undecoded(self, managed_object: Any) -> Any:
        """Return the object with methods that return the answer's SOAP as bytes.

        For answers with thousands of elements, which pyVmomi parses slowly.
        """
        self.content  # noqa: B018 - logs in
        return type(managed_object)(managed_object._moId, self._undecoding_stub)

    def read_file(self, place: FilePlace, offset: int, most: int) -> Part:
        """Read up to `most` bytes of a file from `offset`; no bytes if the file ends before it.

        Raises FileGoneError, UnreadableError, AwayError, VCenterError.
        """
        last = offset + most - 1
        response, body = self._get(place, {"Range": f"bytes={offset}-{last}"}, most)
        content_range = response.getheader("Content-Range") or ""
        size = content_range.rpartition("/")[2]
        if response.status == 206 and _is_size(size):
            return Part(body, int(size))
        if response.status == 416:
            # Some servers do not send the file's size if the offset is at its end.
            return Part(b"", int(size) if _is_size(size) else offset)
        if response.status == 200 and offset == 0:
            length = response.getheader("Content-Length") or ""
            return Part(body, int(length) if _is_size(length) else len(body))
        raise UnreadableError(
            f"Cannot read a part of {place}: {self.address} only sends whole files."
        )

    def list_folder(self, place: FilePlace) -> str:
        """Return the HTML page that lists a datastore's folder. Raises errors as `read_file`."""
        _, body = self._get(place, {}, _LARGEST_PAGE)
        return body.decode("utf-8", "replace")

    def ask_rest(self, method: str, path: str, body: Any = None) -> Any:
        """Return the decoded answer of one of READING_PATHS. Raises VCenterError or a subclass."""
        if not READING_PATHS.fullmatch(f"{method} {path}"):
            raise NotReadingError(f"This program only reads; it must not use {method} {path}.")

        return self._patiently(lambda: self._rest(method, path, body), self._patience_s)

    def _rest(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else orjson.dumps(body)
        for _ in range(2):
            if self._rest_session is None:
                who = f"{self._credentials.user}:{self._credentials.password}".encode()
                login = {"Authorization": f"Basic {b64encode(who).decode()}"}
                response, answer = self._exchange("POST", _REST_SESSION, login)
                if response.status == 200:
                    self._rest_session = orjson.loads(answer)["value"]
            headers = {"Content-Type": "application/json", _REST_HEADER: self._rest_session or ""}
            response, answer = self._exchange(method, path, headers, data)
            if response.status == 200:
                return orjson.loads(answer)["value"]
            # The session may have expired.
            self._rest_session = None
        raise VCenterError(
            f"Cannot read tags: {self.address} answered {response.status} {response.reason}."
        )

    def _exchange(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes | None = None,
        most: int | None = None,
    ) -> tuple[HTTPResponse, bytes]:
        """Send one request; return at most `most` bytes of the answer. Raises temporary errors."""
        connection: HTTPConnection = self._soap.GetConnection()
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            body = response.read(most)
        except BaseException:
            connection.close()
            raise
        if response.isclosed():
            self._soap.ReturnConnection(connection)
        else:
            connection.close()
        if response.status in _PASSING:
            raise _BusyError(response.status)
        return response, body

    def _get(
        self, place: FilePlace, headers: dict[str, str], most: int
    ) -> tuple[HTTPResponse, bytes]:
        def ask() -> tuple[HTTPResponse, bytes]:
            self.content  # noqa: B018 - logs in
            cookie = self._soap.cookie.partition(";")[0]
            response, body = self._exchange(
                "GET", place.url, headers | {"Cookie": cookie}, most=most
            )
            if response.status == 401:
                raise vim.fault.NotAuthenticated()
            return response, body

        # Wait less than usual: a datastore that is away must not delay the others.
        response, body = self._patiently(ask, min(self._patience_s, _FILE_PATIENCE_S))
        if response.status == 404:
            raise FileGoneError(f"{place} does not exist.")
        if response.status == 403:
            raise VCenterError(
                f"{self._credentials.user} has no permission to read {place}. Add Datastore.Browse"
                " and Datastore.FileManagement on the datastore to the role."
            )
        if response.status not in (200, 206, 416):
            raise UnreadableError(
                f"Cannot read {place}: {self.address} answered {response.status} {response.reason}."
            )
        return response, body

    def _patiently(self, ask: Callable[[], T], patience_s: float) -> T:
        deadline = time.monotonic() + patience_s
        refused = lost = 0
        while True:
            logins = self.logins
            try:
                return ask()
            except vim.fault.NotAuthenticated:
                if self._stop.is_set():
                    raise StoppedError from None
                lost += 1
                if lost > _MOST_LOGINS:
                    raise VCenterError(
                        f"{self.address} accepts the login of {self._credentials.user}, but then"
                        " rejects its requests. Check the user's permissions."
                    ) from None
                self._log_in(logins)
            except (OSError, HTTPException, ExpatError, ThumbprintMismatchException) as error:
                refused += 1
                self.refusals += 1
                self._raise_what_stays(error)
                wait_s = wait_seconds(refused)
                if time.monotonic() + wait_s > deadline:
                    raise AwayError(f"{self.address} does not answer: {_said(error)}.") from error
                if self._stop.wait(wait_s):
                    raise StoppedError from None

    def _raise_what_stays(self, error: Exception) -> None:
        """Raise VCenterError for errors that a retry cannot resolve."""
        if isinstance(error, ssl.SSLCertVerificationError):
            raise VCenterError(
                f"The certificate of {self.address} is not trusted: {error.verify_message}. Set"
                " STUNWATCH_VCENTER_CA_FILE to the certificate of its authority, or"
                " STUNWATCH_VCENTER_THUMBPRINT to its SHA-256."
            ) from None
        if isinstance(error, ThumbprintMismatchException):
            raise VCenterError(
                f"The certificate of {self.address} does not match STUNWATCH_VCENTER_THUMBPRINT:"
                f" its SHA-256 is {error.actual}. If it was renewed, set this value."
            ) from None
        # pyVmomi reports an answer that is not SOAP like this: `404 Not Found`
        found = re.match(r"(\d{3}) ", str(error)) if isinstance(error, HTTPException) else None
        if found and int(found[1]) not in _PASSING:
            raise VCenterError(f"{self.address} answered {error}. Is it a vCenter?") from None

    def _log_in(self, seen: int) -> None:
        """Log in, unless another thread has logged in since the `seen`-th login."""
        with self._lock:
            if self._content is None or self.logins == seen:
                self._content = self._patiently(self._new_content, self._patience_s)
                self.logins += 1

    def _new_content(self) -> Any:
        self._soap.SetSessionId(None)
        content = vim.ServiceInstance("ServiceInstance", self._stub).RetrieveContent()
        try:
            manager: Any = content.sessionManager
            manager.Login(self._credentials.user, self._credentials.password)
        except vim.fault.InvalidLogin:
            raise VCenterError(
                f"{self.address} rejected the user {self._credentials.user} or the password."
            ) from None
        return content

    def _send(self, mo: Any, info: Any, args: Any) -> Any:
        """Send a call of pyVmomi's objects. All calls pass through here."""

        def ask() -> Any:
            status, answer = self._soap.InvokeMethod(mo, info, args, self._stub)
            if status != 200:
                raise answer
            return answer

        return self._if_it_reads(info, ask)

    def _send_undecoded(self, mo: Any, info: Any, args: Any) -> Any:
        def ask() -> bytes:
            headers = {
                "Cookie": self._soap.cookie,
                "SOAPAction": self._soap.versionId,
                "Content-Type": "text/xml; charset=utf-8",
                "Accept-Encoding": "gzip",
            }
            request = self._soap.SerializeRequest(mo, info, args)
            response, body = self._exchange("POST", self._soap.path, headers, request)
            if response.getheader("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if response.status == 500:
                fault = SoapResponseDeserializer(self._stub).Deserialize(BytesIO(body), info.result)
                raise fault
            if response.status != 200:
                raise HTTPException(f"{response.status} {response.reason}")
            return body

        return self._if_it_reads(info, ask)

    def _if_it_reads(self, info: Any, ask: Callable[[], T]) -> T:
        """Return the answer to a call, if its method only reads."""
        if info.wsdlName not in READING_METHODS:
            raise NotReadingError(f"This program only reads; it must not call {info.wsdlName}.")
        if info.wsdlName in _FOR_A_LOGIN:
            return ask()
        return self._patiently(ask, self._patience_s)


class _ReadingStub(StubAdapterBase):  # type: ignore[misc]
    """The stub of pyVmomi's objects: passes every call to the session."""

    def __init__(self, soap: Any, send: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__(version=soap.version)
        self.InvokeMethod = send


def _is_size(text: str) -> bool:
    """Return True if a header's value is a file size: a number with at most 18 digits."""
    return len(text) <= 18 and text.isdecimal()


def _said(error: Exception) -> str:
    """Return an exception as a short text."""
    return str(error) or type(error).__name__


class _BusyError(HTTPException):
    """A file request was answered with a status in `_PASSING`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} busy")
