"""A vCenter for tests: runs vcsim as a process. Tests write the vmware.logs of its VMs.

with Simulator(folder, hosts=5, vms=40) as vcenter:
    vcenter.log("app0007").write_bytes(b"...")       # as the VM's host would
    session = Session(vcenter.address, ...)           # the code under test
    vcenter.requests()                                # the requests that it sent

tools/vcsim/main.go lists the differences to govmomi's original simulator.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim
from rich.console import Console

from stunwatch.ingest.vcenter.session import Address, Credentials
from stunwatch.local.fetch import ensure_vcsim
from stunwatch.settings import load_settings

USER = "reader"
PASSWORD = "only in tests"


@dataclass(frozen=True)
class Request:
    """One request that vcsim answered."""

    at: datetime
    method: str
    """GET, POST, …"""
    path: str
    query: dict[str, str]
    soap: str
    """The SOAP method; empty for other requests."""
    range: str
    status: int
    bytes: int

    @property
    def span(self) -> tuple[int, int] | None:
        """Return the requested bytes of a file as [from, to)."""
        if self.status not in (200, 206) or not self.path.startswith("/folder/"):
            return None
        start = int(self.range.removeprefix("bytes=").split("-")[0]) if self.range else 0
        return start, start + self.bytes


class Simulator:
    """A running vcsim. It can be stopped and restarted, and keeps its port and its files."""

    def __init__(
        self,
        folder: Path,
        *,
        clusters: int = 1,
        hosts: int = 2,
        datastores: int = 2,
        vms: int = 4,
        prefix: str = "app",
        session_timeout: str = "30m",
    ) -> None:
        """`folder` is for all its files. `session_timeout` is a duration in Go's format.

        The VMs are named <prefix>0001 and so on.
        """
        self.datastores = folder / "datastores"
        self.datastores.mkdir(parents=True)
        self._folder = folder
        self._words = [
            *("-home", self.datastores),
            *("-record", folder / "requests.jsonl"),
            *("-certificate", folder / "certificate.pem"),
            *("-user", USER, "-password", PASSWORD),
            *("-session-timeout", session_timeout),
            *("-clusters", str(clusters), "-hosts", str(hosts)),
            *("-datastores", str(datastores), "-vms", str(vms)),
            *("-prefix", prefix),
        ]
        self._host_port = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and return when it listens."""
        binary = ensure_vcsim(load_settings({}), Console(stderr=True))
        scratch = self._folder / "scratch"
        scratch.mkdir(exist_ok=True)
        with (self._folder / "vcsim.log").open("a") as said:
            self._process = subprocess.Popen(
                [binary, *self._words, "-listen", self._host_port],
                env=os.environ | {"TMPDIR": str(scratch)},
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        assert self._process.stdout is not None
        self._host_port = self._process.stdout.readline().strip()
        assert self._host_port, (self._folder / "vcsim.log").read_text()

    def stop(self) -> None:
        """Stop it as if switched off: the last requests get no answer."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def address(self) -> Address:
        """Return its address, with its own certificate as trusted."""
        host, _, port = self._host_port.partition(":")
        return Address(host, int(port), ca_file=self._folder / "certificate.pem")

    @property
    def credentials(self) -> Credentials:
        return Credentials(USER, PASSWORD)

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings for `stunwatch collect`."""
        return {
            "STUNWATCH_VCENTER": self._host_port,
            "STUNWATCH_VCENTER_USER": USER,
            "STUNWATCH_VCENTER_PASSWORD": PASSWORD,
            "STUNWATCH_VCENTER_CA_FILE": str(self._folder / "certificate.pem"),
        }

    def folders(self) -> dict[str, Path]:
        """Return the folder of every VM, by the VM's name."""
        return {each.name: each for each in sorted(self.datastores.glob("*/*"))}

    def log(self, vm: str) -> Path:
        """Return the path of a VM's vmware.log, which may not exist yet."""
        [folder] = self.datastores.glob(f"*/{vm}")
        return folder / "vmware.log"

    def requests(self) -> list[Request]:
        """Return all requests in the order of their answers."""
        lines = (self._folder / "requests.jsonl").read_text().splitlines()
        made = [_request(json.loads(line)) for line in lines]
        return [each for each in made if not each.path.startswith("/control/")]

    def called(self) -> set[str]:
        """Return the names of all SOAP methods that were called."""
        return {each.soap for each in self.requests() if each.soap}

    def be_busy(self, requests: int) -> None:
        """Answer the next requests with 503."""
        self._control(f"busy?requests={requests}")

    def take_away(self, datastore: str) -> None:
        """Make the files of a datastore unreadable until `give_back`."""
        self._control(f"datastore?name={datastore}&away=true")

    def give_back(self, datastore: str) -> None:
        self._control(f"datastore?name={datastore}&away=false")

    def move(self, vm: str, datastore: str) -> None:
        """Move a VM's folder to another datastore, as Storage vMotion does."""
        [folder] = self.datastores.glob(f"*/{vm}")
        target = self.datastores / datastore / vm
        target.parent.mkdir(exist_ok=True)
        folder.rename(target)
        self._control(f"move?vm={vm}&datastore={datastore}")

    def migrate(self, vm: str, host: str) -> None:
        """Move a VM to another host."""
        with self._administrator() as content:
            spec = vim.vm.RelocateSpec(host=_named(content, vim.HostSystem, host))
            _named(content, vim.VirtualMachine, vm).RelocateVM_Task(spec)

    def snapshot(self, vm: str) -> None:
        """Create a snapshot."""
        with self._administrator() as content:
            _named(content, vim.VirtualMachine, vm).CreateSnapshotEx_Task("before", memory=False)

    def set_attribute(self, vm: str, name: str, value: str) -> None:
        """Add a new custom attribute to a VM."""
        with self._administrator() as content:
            manager = content.customFieldsManager
            key = manager.AddFieldDefinition(name=name, moType=vim.VirtualMachine).key
            manager.SetField(entity=_named(content, vim.VirtualMachine, vm), key=key, value=value)

    def add_tag(self, vm: str, category: str, name: str) -> None:
        """Add a new tag to a VM."""
        with self._administrator() as content:
            id = _named(content, vim.VirtualMachine, vm)._moId
        service = f"https://{self._host_port}/rest/com/vmware/cis"
        who = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {who}", "Content-Type": "application/json"}

        def ask(path: str, spec: Any) -> Any:
            request = urllib.request.Request(
                f"{service}/{path}", json.dumps(spec).encode(), headers, method="POST"
            )
            context = self.address.context()
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return json.loads(answer.read() or b"{}").get("value")

        headers["vmware-api-session-id"] = ask("session", {})
        new = {"name": category, "cardinality": "MULTIPLE", "associable_types": []}
        category_id = ask("tagging/category", {"create_spec": new})
        tag = ask("tagging/tag", {"create_spec": {"name": name, "category_id": category_id}})
        ask(
            f"tagging/tag-association/id:{tag}?~action=attach",
            {"object_id": {"type": "VirtualMachine", "id": id}},
        )

    def end_sessions(self) -> None:
        """End all sessions, as if they had been idle for too long."""
        with self._administrator() as content:
            manager = content.sessionManager
            others = {each.key for each in manager.sessionList} - {manager.currentSession.key}
            manager.TerminateSession(sorted(others))

    @contextmanager
    def _administrator(self) -> Iterator[Any]:
        """Open a session with all rights, which no collector has."""
        instance = SmartConnect(
            host=self.address.host,
            port=self.address.port,
            user=USER,
            pwd=PASSWORD,
            sslContext=self.address.context(),
        )
        try:
            yield instance.RetrieveContent()
        finally:
            Disconnect(instance)

    def _control(self, order: str) -> None:
        request = urllib.request.Request(
            f"https://{self._host_port}/control/{order}", method="POST"
        )
        with urllib.request.urlopen(request, context=self.address.context(), timeout=30):
            pass


def _named(content: Any, kind: Any, name: str) -> Any:
    view = content.viewManager.CreateContainerView(content.rootFolder, [kind], True)
    return next(each for each in view.view if each.name == name)


def _request(entry: dict[str, Any]) -> Request:
    parts = urlsplit(entry["path"])
    return Request(
        at=datetime.fromisoformat(entry["at"]),
        method=entry["method"],
        path=parts.path,
        query={name: values[0] for name, values in parse_qs(parts.query).items()},
        soap=entry.get("soap", ""),
        range=entry.get("range", ""),
        status=entry["status"],
        bytes=entry["bytes"],
    )
