"""Checks for `stunwatch doctor --host`: will the logs of a host and of its VMs arrive?

`told` reads the settings from a vCenter, `findings` judges them. Nothing is changed; the findings
contain commands to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pyVmomi import vim, vmodl

from stunwatch.errors import UserError
from stunwatch.ingest.vcenter.inventory import shown_name
from stunwatch.ingest.vcenter.names import folder_in
from stunwatch.ingest.vcenter.properties import Properties, read_all, read_some
from stunwatch.ingest.vcenter.session import Session

NEEDED: Final = {
    "System.View": "to log in",
    "System.Read": "for `collect latency` and `collect inventory`",
    "Datastore.Browse": "for `collect vmlogs`",
    "Datastore.FileManagement": "for `collect vmlogs`: without it vCenter sends no files",
}
"""Privileges and the reason for each. stunwatch changes nothing."""

MESSAGE_BYTES: Final = 16384
"""The largest message that a host can send. The default is 1 KiB."""

SMALL_LOG_BYTES: Final = 100_000
"""A log with a smaller size limit may be rotated away before it is read."""

DRIFT_S: Final = 1.0
GREAT_DRIFT_S: Final = 5.0
"""From this clock difference on, a host's lines cannot be matched with other hosts' by time."""

_HOST: Final = (
    "name",
    "vm",
    "datastore",
    "config.product",
    "config.network.dnsConfig",
    "config.service",
    "config.dateTimeInfo",
    "configManager.advancedOption",
    "configManager.dateTimeSystem",
)
_VM: Final = ("name", "config.files.vmPathName", "config.extraConfig", "config.template")


@dataclass(frozen=True)
class Finding:
    """The result of one check: `lacking` means that some data is lost, `missing` all of it."""

    what: str
    grade: Literal["good", "lacking", "missing"]
    found: str
    loss: str = ""
    """What is lost with the current settings."""
    commands: tuple[str, ...] = ()
    """Commands that fix it, for users to read and run."""


@dataclass(frozen=True)
class VirtualMachine:
    """A VM's log settings."""

    name: str
    folder: str
    settings: Mapping[str, str]

    def setting(self, name: str, default: str) -> str:
        """Return the setting `vmx.log.…` or, in the older form, `log.…`."""
        given = self.settings
        return given.get(f"vmx.{name}") or given.get(name) or default


@dataclass(frozen=True)
class Told:
    """Settings of a host, from vCenter."""

    host: str
    release: tuple[int, ...]
    """8, 0, 3"""
    options: Mapping[str, str]
    """Syslog.global.…"""
    vms: list[VirtualMachine] = field(default_factory=list)
    time_servers: tuple[str, ...] = ()
    is_time_service_running: bool | None = None
    drift_s: float | None = None
    """How far the host's clock is ahead of this machine's; None if it cannot be read."""
    lacking: tuple[str, ...] = ()
    """Privileges that the user lacks."""


def findings(told: Told) -> list[Finding]:
    """Return the results of all checks, in the order in which a line passes the stages."""
    return [
        *_privileges(told),
        *_clock(told),
        *_syslog(told),
        *_vm_logs(told),
    ]


def _privileges(told: Told) -> Iterator[Finding]:
    for each in told.lacking:
        yield Finding(
            "privilege", "missing", f"{each} is missing", f"It is needed {NEEDED[each]}.",
            (f"# in vCenter, in the role of stunwatch's user: add {each}",),
        )  # fmt: skip
    if not told.lacking:
        yield Finding("privileges", "good", ", ".join(NEEDED))


def _clock(told: Told) -> Iterator[Finding]:
    commands = (
        "esxcli system ntp set --server=ntp.lab.example --enabled=true",
        "esxcli system ntp get",
    )
    if told.is_time_service_running and told.time_servers:
        yield Finding("time service", "good", ", ".join(told.time_servers))
    elif told.is_time_service_running is not None:
        found = "it does not run" if told.time_servers else "no server is set"
        loss = "The clock drifts: events of several hosts cannot be compared."
        yield Finding("time service", "lacking", found, loss, commands)
    if told.drift_s is None:
        return
    found = f"{abs(told.drift_s):.1f} s {'ahead' if told.drift_s > 0 else 'behind'}"
    if abs(told.drift_s) < DRIFT_S:
        yield Finding("clock", "good", found)
    elif abs(told.drift_s) < GREAT_DRIFT_S:
        yield Finding("clock", "lacking", found, "Causes may seem to follow effects.", commands)
    else:
        loss = "Its lines are stored under a wrong time; incidents with other hosts are missed."
        yield Finding("clock", "missing", found, loss, commands)


def _syslog(told: Told) -> Iterator[Finding]:
    reload = "esxcli system syslog reload"
    target = told.options.get("Syslog.global.logHost", "").strip()
    if target in ("", "<none>"):
        yield Finding(
            "syslog target",
            "missing",
            "none",
            "No lines of vmkernel, vobd and hostd arrive: no conflicts, latency or path events.",
            (
                "esxcli system syslog config set --loghost='ssl://collector.lab.example:1514'",
                "esxcli network firewall ruleset set --ruleset-id=syslog --enabled=true",
                reload,
            ),
        )
        return
    yield Finding("syslog target", "good", target)
    by_udp = [each.strip() for each in target.split(",") if "://" not in each or "udp:" in each]
    if by_udp:
        yield Finding(
            "syslog protocol",
            "lacking",
            "UDP",
            "Under load messages are lost, and the loss is not logged.",
            (
                "esxcli system syslog config set --loghost='ssl://collector.lab.example:1514'",
                reload,
            ),
        )
    else:
        yield Finding("syslog protocol", "good", target.partition("://")[0].upper())
    longest = told.options.get("Syslog.global.remoteHost.maxMsgLen")
    if told.release < (7, 0):
        yield Finding("message length", "lacking", "1 KiB", "Longer messages are cut.")
    elif int(longest or 1024) < MESSAGE_BYTES:
        yield Finding(
            "message length",
            "lacking",
            f"{int(longest or 1024):,} bytes",
            "Longer messages are cut, perhaps before the duration or the latency.",
            (f"esxcli system syslog config set --remote-host-max-msg-len={MESSAGE_BYTES}", reload),
        )
    else:
        yield Finding("message length", "good", f"{int(longest or 0):,} bytes")


def _vm_logs(told: Told) -> Iterator[Finding]:
    silent = [each for each in told.vms if each.settings.get("logging", "").lower() == "false"]
    if silent:
        yield Finding(
            "logging of VMs",
            "missing",
            _listed(silent),
            "They write no vmware.log: their stuns cannot be detected.",
            tuple(f'# {each.name}, powered off, in its .vmx: logging = "TRUE"' for each in silent),
        )
    heard = [each for each in told.vms if each not in silent]
    by_syslog = [each for each in heard if "syslog" in each.setting("log.destination", "disk")]
    if len(by_syslog) < len(heard):
        unsent = [each for each in heard if each not in by_syslog]
        yield Finding(
            "vmware.log by syslog",
            "lacking",
            f"{len(unsent):,} of {len(heard):,} VMs do not send it: {_listed(unsent)}",
            "Their stuns appear only in their logs: collect these with `stunwatch collect vmlogs`.",
            tuple(
                line
                for each in unsent[:1]
                for line in (
                    "stunwatch collect vmlogs",
                    f"# or in the .vmx of each, powered off (ESXi 8), as of {each.name}:",
                    '#   vmx.log.destination = "syslog-and-disk"',
                    f'#   vmx.log.syslogID = "{each.folder}"',
                )
            ),
        )
    elif heard:
        yield Finding("vmware.log by syslog", "good", f"{len(heard):,} VMs")
    unnamed = [each for each in by_syslog if not each.setting("log.syslogID", "")]
    if unnamed:
        yield Finding(
            "names by syslog",
            "missing",
            _listed(unnamed),
            "vmx.log.syslogID is not set: the VM of their lines is unknown.",
            tuple(f'# {each.name}: vmx.log.syslogID = "{each.folder}"' for each in unnamed),
        )
    hasty = [
        each for each in heard if 0 < int(each.setting("log.rotateSize", "0")) < SMALL_LOG_BYTES
    ]
    brief = [each for each in heard if int(each.setting("log.keepOld", "10")) < 2]
    for each, what, loss in (
        (
            hasty,
            f"less than {SMALL_LOG_BYTES:,} bytes",
            "Lines may be lost.",
        ),
        (
            brief,
            "fewer than two old ones kept",
            "A few vMotions or restarts delete lines.",
        ),
    ):
        if each:
            yield Finding(
                "rotation of vmware.log",
                "lacking",
                f"{what}: {_listed(each)}",
                loss,
                ('# in their .vmx: log.rotateSize = "2048000", log.keepOld = "10"',),
            )
    if heard and not hasty and not brief:
        yield Finding("rotation of vmware.log", "good", f"{len(heard):,} VMs")


def _listed(vms: list[VirtualMachine]) -> str:
    names = sorted(each.name for each in vms)
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def told(session: Session, name: str) -> Told:
    """Read a host's settings from vCenter.

    Raises:
        UserError: vCenter has no such host, or several.
    """
    moid = _find(session, name)
    host = read_some(session, vim.HostSystem, _HOST, [moid])[moid]
    product = host.get("config.product")
    clock = host.get("config.dateTimeInfo")
    services = host.get("config.service")
    ntp = getattr(clock, "ntpConfig", None)
    return Told(
        host=shown_name(host),
        release=tuple(int(each) for each in product.version.split(".")) if product else (),
        options=_options(host),
        vms=list(_vms(session, host)),
        time_servers=tuple(ntp.server) if ntp else (),
        is_time_service_running=any(
            each.running for each in services.service if each.key in ("ntpd", "ptpd")
        )
        if services
        else None,
        drift_s=_drift(host),
        lacking=_lacking(session, vim.HostSystem(moid), host),
    )


def _find(session: Session, name: str) -> str:
    paths = ("name", "config.network.dnsConfig")
    wanted = name.casefold()
    found = [
        moid
        for moid, host in read_all(session, vim.HostSystem, paths)
        for shown in [{host["name"].casefold(), shown_name(host).casefold()}]
        if wanted in shown or any(each.partition(".")[0] == wanted for each in shown)
    ]
    if len(found) != 1:
        many = f"{len(found)} hosts" if found else "no host"
        raise UserError(
            f"{session.address} has {many} named {name}. Use the name that vCenter shows."
        )
    return found[0]


def _options(host: Properties) -> dict[str, str]:
    manager = host.get("configManager.advancedOption")
    try:
        found = manager.QueryOptions("Syslog.global.") if manager else []
    except vmodl.MethodFault:
        return {}
    return {each.key: str(each.value) for each in found}


def _vms(session: Session, host: Properties) -> Iterator[VirtualMachine]:
    moids = [each._moId for each in host.get("vm") or ()]
    for vm in read_some(session, vim.VirtualMachine, _VM, moids).values():
        path = vm.get("config.files.vmPathName")
        if path and not vm.get("config.template"):
            settings = {each.key: str(each.value) for each in vm.get("config.extraConfig") or ()}
            yield VirtualMachine(vm["name"], folder_in(path), settings)


def _drift(host: Properties) -> float | None:
    system = host.get("configManager.dateTimeSystem")
    if system is None:
        return None
    before = datetime.now(UTC)
    try:
        shown = system.QueryDateTime().astimezone(UTC)
    except vmodl.MethodFault:
        return None
    after = datetime.now(UTC)
    drift: float = (shown - (before + (after - before) / 2)).total_seconds()
    return drift


def _lacking(session: Session, host: Any, known: Properties) -> tuple[str, ...]:
    manager = session.content.authorizationManager
    session_id = session.content.sessionManager.currentSession.key
    lacking = set()
    for entity in [host, *(known.get("datastore") or ())]:
        wanted = [
            each
            for each in NEEDED
            if isinstance(entity, vim.Datastore) or each.startswith("System")
        ]
        [answer] = manager.HasPrivilegeOnEntities([entity], session_id, wanted)
        lacking |= {each.privId for each in answer.privAvailability if not each.isGranted}
    return tuple(each for each in NEEDED if each in lacking)
