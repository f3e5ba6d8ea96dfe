"""The one door to a vCenter. It only reads: a method that is not on the list is never sent.

session = Session(address, credentials)
session.content.rootFolder          # pyVmomi's objects; all their calls pass through here
session.read_file(place, offset=0, most=65536)

A call waits out what passes: a session that expired is opened anew, a vCenter that is busy (503,
429) or away is asked again, each time later. What does not pass is an error with a sentence.
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

from ingest.vcenter.pace import wait_seconds

READING_METHODS: Final = frozenset(
    {
        # the session itself
        *("RetrieveServiceContent", "CurrentTime", "Login", "Logout"),
        # properties. Filters and views are a session's own, and end with it
        *("Fetch", "RetrieveProperties", "RetrievePropertiesEx", "ContinueRetrievePropertiesEx"),
        *("CreatePropertyCollector", "DestroyPropertyCollector", "CancelRetrievePropertiesEx"),
        *("CreateFilter", "DestroyPropertyFilter"),
        *("CreateContainerView", "CreateListView", "DestroyView"),
        *("WaitForUpdatesEx", "CheckForUpdates", "CancelWaitForUpdates"),
        # counters
        *("QueryPerf", "QueryPerfCounter", "QueryAvailablePerfMetric", "QueryPerfProviderSummary"),
        # events and tasks. A collector is a session's own
        *("QueryEvents", "CreateCollectorForEvents", "CreateCollectorForTasks"),
        *("ReadNextEvents", "ReadNextTasks", "ReadPreviousEvents", "ReadPreviousTasks"),
        *("ResetCollector", "RewindCollector", "DestroyCollector", "SetCollectorPageSize"),
        # settings and permissions
        *("QueryOptions", "QueryDateTime", "HasPrivilegeOnEntities", "HasUserPrivilegeOnEntities"),
        *("FetchUserPrivilegeOnEntities", "RetrieveEntityPermissions"),
    }
)
"""The names by which they travel. None of them changes anything but the session that calls it."""

TAGGING: Final = "/rest/com/vmware/cis/tagging"
READING_PATHS: Final = re.compile(
    rf"GET {TAGGING}/(?:tag|category)(?:/id:[\w:.-]+)?"
    rf"|POST {TAGGING}/tag-association\?~action=list-attached-objects-on-tags"
)
"""What is asked for tags, which SOAP does not know: method and path."""
_REST_SESSION: Final = "/rest/com/vmware/cis/session"
_REST_HEADER: Final = "vmware-api-session-id"

_FOR_A_LOGIN: Final = frozenset({"RetrieveServiceContent", "Login"})

API_VERSION: Final = "vim25/6.0"
"""What is spoken: every vCenter since 6.0 speaks it, and what came later is not needed."""

CONNECTIONS: Final = 32
"""Kept open at once; more are opened when needed and closed after."""

REQUEST_TIMEOUT_S: Final = 120.0
"""A vCenter that says nothing for so long is away. Longer than any wait for updates."""

_FILE_PATIENCE_S: Final = 10.0
_LARGEST_PAGE: Final = 4 << 20

_PASSING: Final = frozenset({429, 502, 503, 504})
_MOST_LOGINS: Final = 3
"""So often in a row a call may find that its session is gone."""

T = TypeVar("T")


class VCenterError(Exception):
    """What the vCenter refuses, or what is wrong with how it is asked: a sentence."""


class AwayError(VCenterError):
    """It does not answer, or is too busy, and has been for longer than patience lasts."""


class StoppedError(Exception):
    """The collector is being stopped; nothing more is asked."""


class NotReadingError(Exception):
    """A method that could change something was about to be called: a mistake in this program."""


class FileGoneError(VCenterError):
    """There is no such file."""


class UnreadableError(VCenterError):
    """A file cannot be read now: its datastore is away, or the host that would read it."""


@dataclass(frozen=True)
class Address:
    """Where a vCenter is, and by what it is recognised: a public authority, `ca_file`, or both.

    `thumbprint` is the SHA-256 of its certificate (64 hex digits; colons do not matter): that very
    certificate is then trusted, whoever signed it.
    """

    host: str
    port: int = 443
    ca_file: Path | None = None
    thumbprint: str | None = None

    def __str__(self) -> str:
        return self.host if self.port == 443 else f"{self.host}:{self.port}"

    def context(self) -> ssl.SSLContext:
        """How its certificate is verified."""
        return ssl.create_default_context(cafile=self.ca_file)


@dataclass(frozen=True)
class Credentials:
    """Who logs in."""

    user: str
    password: str = field(repr=False)


def address_from(environment: Mapping[str, str] = os.environ) -> Address:
    """STUNWATCH_VCENTER (host, host:port), …_CA_FILE, …_THUMBPRINT. Raises VCenterError."""
    text = environment.get("STUNWATCH_VCENTER", "")
    found = re.fullmatch(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d{1,5}))?", text)
    if found is None:
        raise VCenterError(
            f"STUNWATCH_VCENTER is {text!r}: it must name the vCenter, as in vcenter.lab.example."
            if text
            else "Which vCenter? Set STUNWATCH_VCENTER, as in vcenter.lab.example."
        )
    thumbprint = environment.get("STUNWATCH_VCENTER_THUMBPRINT", "").replace(":", "").lower()
    if thumbprint and not re.fullmatch("[0-9a-f]{64}", thumbprint):
        raise VCenterError(
            "STUNWATCH_VCENTER_THUMBPRINT must be the certificate's SHA-256, 64 hex digits, as"
            " `openssl x509 -noout -fingerprint -sha256` prints it."
        )
    ca_file = environment.get("STUNWATCH_VCENTER_CA_FILE", "")
    if ca_file and not Path(ca_file).is_file():
        raise VCenterError(f"STUNWATCH_VCENTER_CA_FILE: there is no file {ca_file}.")
    return Address(
        found["host"],
        int(found["port"] or 443),
        Path(ca_file) if ca_file else None,
        thumbprint or None,
    )


def credentials_from(environment: Mapping[str, str] = os.environ) -> Credentials:
    """STUNWATCH_VCENTER_USER and …_PASSWORD, or the two lines of …_CREDENTIALS, a file.

    Raises VCenterError.
    """
    if name := environment.get("STUNWATCH_VCENTER_CREDENTIALS", ""):
        return _credentials_in(Path(name))
    user = environment.get("STUNWATCH_VCENTER_USER", "")
    password = environment.get("STUNWATCH_VCENTER_PASSWORD", "")
    if not user or not password:
        raise VCenterError(
            "Who logs in? Set STUNWATCH_VCENTER_USER and STUNWATCH_VCENTER_PASSWORD, or let"
            " STUNWATCH_VCENTER_CREDENTIALS name a file of mode 600 whose first line is the user"
            " and whose second is the password."
        )
    return Credentials(user, password)


def _credentials_in(path: Path) -> Credentials:
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise VCenterError(f"{path} cannot be read ({error.strerror}).") from None
    if stat.S_IMODE(mode) & 0o077:
        raise VCenterError(f"Others may read {path}: `chmod 600 {path}`.")
    if len(lines) < 2 or not all(lines[:2]):
        raise VCenterError(f"{path} must have two lines: the user, and the password.")
    return Credentials(lines[0], lines[1])


@dataclass(frozen=True)
class FilePlace:
    """A file or folder of a datastore: `app01/vmware.log` on `san-01` of datacenter `lab`."""

    datacenter: str
    """With the folders that it lies in: `europe/lab`."""
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
    """What was read of a file."""

    data: bytes
    size: int
    """Of the whole file at that moment, in bytes."""


class Session:
    """One login, renewed as often as need be. Threads may share it."""

    def __init__(
        self,
        address: Address,
        credentials: Credentials,
        *,
        patience_s: float = 300.0,
        stop: threading.Event | None = None,
    ) -> None:
        """`patience_s`: how long a call waits for a vCenter that is away. `stop` ends all waits."""
        self.address = address
        self.logins = 0
        """How often it has logged in. Filters and views of an earlier login are gone."""
        self.refusals = 0
        """How often the vCenter was busy or away."""
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
        """The vCenter's ServiceContent; logs in at first."""
        if self._content is None:
            self._log_in(self.logins)
        return self._content

    def close(self) -> None:
        """Log out, if the vCenter still listens."""
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
        """The vCenter's own time, UTC."""
        told: datetime = vim.ServiceInstance("ServiceInstance", self._stub).CurrentTime()
        return told.astimezone(UTC)

    def undecoded(self, managed_object: Any) -> Any:
        """The same object, but its methods give the answer's SOAP as bytes.

        For answers of many thousand elements, which take pyVmomi long to read.
        """
        self.content  # noqa: B018 - there is a session
        return type(managed_object)(managed_object._moId, self._undecoding_stub)

    def read_file(self, place: FilePlace, offset: int, most: int) -> Part:
        """At most `most` bytes of a file from `offset` on; none where it ends before.

        Raises FileGoneError, UnreadableError, AwayError, VCenterError.
        """
        last = offset + most - 1
        response, body = self._get(place, {"Range": f"bytes={offset}-{last}"}, most)
        content_range = response.getheader("Content-Range") or ""
        size = content_range.rpartition("/")[2]
        if response.status == 206 and size.isdecimal():
            return Part(body, int(size))
        if response.status == 416:
            # Some servers do not say the size of a file that has nothing more.
            return Part(b"", int(size) if size.isdecimal() else offset)
        if response.status == 200 and offset == 0:
            length = response.getheader("Content-Length") or ""
            return Part(body, int(length) if length.isdecimal() else len(body))
        raise UnreadableError(f"{place}: {self.address} does not send parts of files.")

    def list_folder(self, place: FilePlace) -> str:
        """The page that shows what a datastore's folder holds. Raises as `read_file` does."""
        _, body = self._get(place, {}, _LARGEST_PAGE)
        return body.decode("utf-8", "replace")

    def ask_rest(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of one of READING_PATHS, decoded. Raises VCenterError and its kin."""
        if not READING_PATHS.fullmatch(f"{method} {path}"):
            raise NotReadingError(f"{method} {path} is not one of the paths that only read.")

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
            # It may have expired.
            self._rest_session = None
        raise VCenterError(
            f"{self.address} answers {response.status} {response.reason} to who asks for tags."
        )

    def _exchange(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes | None = None,
        most: int | None = None,
    ) -> tuple[HTTPResponse, bytes]:
        """One request, and at most so many bytes of its answer. Raises what passes."""
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
            self.content  # noqa: B018 - there is a session
            cookie = self._soap.cookie.partition(";")[0]
            response, body = self._exchange(
                "GET", place.url, headers | {"Cookie": cookie}, most=most
            )
            if response.status == 401:
                raise vim.fault.NotAuthenticated()
            return response, body

        # A datastore that is away must not hold up the others.
        response, body = self._patiently(ask, min(self._patience_s, _FILE_PATIENCE_S))
        if response.status == 404:
            raise FileGoneError(f"{place} is not there.")
        if response.status == 403:
            raise VCenterError(
                f"{self._credentials.user} may not read {place}: the role needs Datastore.Browse"
                " and Datastore.FileManagement on the datastore."
            )
        if response.status not in (200, 206, 416):
            raise UnreadableError(f"{place} cannot be read ({response.status} {response.reason}).")
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
                        f"{self.address} takes {self._credentials.user}'s login, and then refuses"
                        " what it asks."
                    ) from None
                self._log_in(logins)
            except (OSError, HTTPException, ExpatError, ThumbprintMismatchException) as error:
                refused += 1
                self.refusals += 1
                self._raise_what_stays(error)
                wait_s = wait_seconds(refused)
                if time.monotonic() + wait_s > deadline:
                    raise AwayError(f"{self.address} does not answer ({_said(error)}).") from error
                if self._stop.wait(wait_s):
                    raise StoppedError from None

    def _raise_what_stays(self, error: Exception) -> None:
        """Raise VCenterError for what will be the same the next time."""
        if isinstance(error, ssl.SSLCertVerificationError):
            raise VCenterError(
                f"The certificate of {self.address} is not trusted ({error.verify_message}): let"
                " STUNWATCH_VCENTER_CA_FILE name its authority's certificate, or set"
                " STUNWATCH_VCENTER_THUMBPRINT to its SHA-256."
            ) from None
        if isinstance(error, ThumbprintMismatchException):
            raise VCenterError(
                f"{self.address} shows another certificate than STUNWATCH_VCENTER_THUMBPRINT names:"
                f" its SHA-256 is {error.actual}."
            ) from None
        # pyVmomi's way to tell an answer that is no SOAP: `404 Not Found`
        found = re.match(r"(\d{3}) ", str(error)) if isinstance(error, HTTPException) else None
        if found and int(found[1]) not in _PASSING:
            raise VCenterError(f"{self.address} answers {error}.") from None

    def _log_in(self, seen: int) -> None:
        """Log in, unless another thread has done so after the `seen`-th login."""
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
                f"{self.address} refuses the user {self._credentials.user} or the password."
            ) from None
        return content

    def _send(self, mo: Any, info: Any, args: Any) -> Any:
        """What every call of pyVmomi's objects comes to."""

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
        """The answer to a call of a method that only reads."""
        if info.wsdlName not in READING_METHODS:
            raise NotReadingError(f"{info.wsdlName} is not one of the methods that only read.")
        if info.wsdlName in _FOR_A_LOGIN:
            return ask()
        return self._patiently(ask, self._patience_s)


class _ReadingStub(StubAdapterBase):  # type: ignore[misc]
    """What pyVmomi's objects call: hands every call to the session."""

    def __init__(self, soap: Any, send: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__(version=soap.version)
        self.InvokeMethod = send


def _said(error: Exception) -> str:
    """An exception in a few words."""
    return str(error) or type(error).__name__


class _BusyError(HTTPException):
    """A file request was answered with one of `_PASSING`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} busy")
