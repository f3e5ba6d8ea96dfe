"""Writes noise: lines without relevance for detectors, in each program's style.

Templates contain `{kind}` placeholders, filled with random values for each line. The number of a
template is its relative frequency.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import accumulate

from stunwatch.simulation.fleet import Fleet, Host
from stunwatch.simulation.log_writers import MS, Entry, LogWriter, cpu

Template = tuple[int, str]

VMX: tuple[Template, ...] = (
    (12, "Vix: [vmxCommands.c:{small}]: VMAutomation_HandleCLIHLREvent. Do nothing."),
    (10, "TOOLS call to unity.show.taskbar failed."),
    (10, "Tools: Tools heartbeat value {number} (last received {digit}s ago)"),
    (8, "GuestRpcSendTimedOut: message to toolbox-dnd timed out."),
    (8, "GuestInfo: {number} bytes of guest information were published"),
    (
        7,
        "VigorTransportProcessClientPayload: opID={opid} seq={number}: Receiving a request.",
    ),
    (7, "VigorTransport_ServerSendResponse opID={opid} seq={number}: Completed Stats request."),
    (6, "DISKLIB-LIB   : numIOs = {thousands} numMergedIOs = {number} numSplitIOs = {small}"),
    (5, "MKSVMX: User changed, from console {digit} to {digit}."),
    (5, "SVGA: Registering MemSpace at {hex}(0x0) and {hex}(0x0)"),
    (4, "VNET: MACVNetPort_Connect: Ethernet{digit}: port {number} is connected"),
    (4, "E1000: E1000 rx ring full, drain packets."),
    (4, "HBACommon: First write on scsi0:{digit}.fileName='disk-{digit}.vmdk'"),
    (4, 'DDB: "longContentID" = "{hex}" (was "{hex}")'),
    (3, 'ConfigDB: Setting guestinfo.vmtools.buildNumber = "{number}"'),
    (3, "Balloon: balloon target {number} pages, current {number}"),
    (3, "USB: Connecting device desc:name:Virtual\\ Mouse vid:0e0f pid:{small}"),
    (2, "SCSI: switching scsi0 to push completion mode"),
    (2, "PVSCSI: scsi0: init on reset, {small} rings"),
    (2, "VMXNET3 user: Ethernet{digit} Driver Info: version = {number} gosBits = 2"),
    (2, "CDROM: Emulate GET CONFIGURATION RT {digit} starting feature {small}"),
    (1, "Progress {small}% (none)"),
    (1, "DISK: OPEN scsi0:{digit} '/vmfs/volumes/{hex}/disk.vmdk' persistent R[]"),
    (1, "MigrateResetStaleVMDBHostLog: Hostlog ./vm-{hex}.hlog doesn't exist."),
    (1, "MainMem: CPT Host WZ=0 PF={number} D=0"),
)

VMKERNEL: tuple[Template, ...] = (
    (14, "NetPort: {small}: resuming traffic on DV port {number}"),
    (
        12,
        "VSCSI: {small}: handle {number}(vscsi0:{digit}):Creating Virtual Device for {world}",
    ),
    (12, "DLX: {small}: vol 'scratch-{digit}', lock at {number}: [Req mode 1] Checking liveness"),
    (10, "World: vm {world}: {small}: Starting world vmm{digit}:guest of type {digit}"),
    (10, "Net: {small}: connected guest.eth{digit} eth{digit} to vSwitch{digit}, portID {hex}"),
    (9, "J3: {small}: [jrnl <FB {number}>] Committing {small} transactions took {small} us"),
    (8, "VMotionUtil: {small}: no migration heap is in use, {number} bytes are free"),
    (
        8,
        "BC: {small}: Flushed {small} buffers of size {thousands} for object f530 {digit} {hex}",
    ),
    (
        8,
        "Swap: vm {world}: {small}: Finish swapping in swap file. (faulted {small} pages)",
    ),
    (7, "<6>ixgbe {hex}: vmnic{digit}: allocated rx queue {digit}"),
    (
        7,
        "FSS: {small}: No FS driver claimed device 'mpx.vmhba32:C0:T0:L0': No filesystem",
    ),
    (
        6,
        "ScsiScan: {small}: Path 'vmhba{digit}:C0:T{digit}:L{digit}': Vendor: 'SIM' Model: 'LUN'",
    ),
    (
        6,
        "VMW_SATP_ALUA: satp_alua_getTargetPortInfo:{small}: group {digit} is active/optimized",
    ),
    (6, "SunRPC: {small}: RPC for client {hex} IP 192.0.2.{small} proc {digit} ended"),
    (5, "MemSched: vm {world}: {small}: extended swap to {hex} pgs"),
    (5, "UserDump: {small}: nothing to dump for cartel {world}"),
    (5, "Vol3: {small}: Volume scratch-{digit} was opened with {digit} extents"),
    (5, "CBRC: {small}: digest cache holds {number} blocks, {small} are stale"),
    (4, "PageRetire: {small}: {digit} pages are queued for retirement"),
    (4, "iscsi_vmk: iscsivmk_ConnNetRegister: socket {hex} network resource pool iscsi associated"),
    (4, "Tcpip_Vmk: {small}: nd6_rs_timer: no router answered on vmk{digit}"),
    (3, "etherswitch: L2Sec_EnforcePortCompliance:{small}: client guest.eth{digit} was let pass"),
    (3, "VmMemMigrate: vm {world}: {small}: Pre-copy heap has {number} pages"),
    (3, "Res3: {small}: Rank violation threshold is {small}, found {digit}"),
    (2, "HBX: {small}: Setting pulse [HB state abcdef02 offset {number} gen {small}]"),
    (2, "lpfc: lpfc_sli_handler: {digit}:{small} ring {digit} had {small} completions"),
    (2, "Hardware: {small}: package {digit} throttled its clock for {small} ms"),
    (1, "DVFilter: {small}: Checking disconnected filters for timeouts"),
)

HOSTD: tuple[Template, ...] = (
    (14, "Task Created : haTask--vim.SearchIndex.findByInventoryPath-{number}"),
    (14, "Task Completed : haTask--vim.SearchIndex.findByInventoryPath-{number} Status success"),
    (
        12,
        "RecordOp ASSIGN: info, haTask-{small}-vim.VirtualMachine.query-{number}. Applied.",
    ),
    (
        10,
        "New request: target='vim.HostSystem:ha-host', method='retrieve', session='{hex}'",
    ),
    (9, "Event {number} : User vpxuser@192.0.2.{small} logged in as the agent"),
    (9, "Event {number} : User vpxuser@192.0.2.{small} logged out (login time: {number} s)"),
    (8, "SetVigorNotificationTime: Not connected"),
    (
        8,
        "SlowRefresh: path /vmfs/volumes/{hex} total blocks {number} used blocks {small}",
    ),
    (7, "Ticket issued for CIMOM version 1.0, user root"),
    (7, "HostCtl Exception while collecting statistics: NetworkSystem has no item {small}"),
    (6, "CollectVmInfo: {small} VMs took {small} ms"),
    (6, "PropertyCollector: session {hex} waits for updates since version {number}"),
    (5, "Actual VM overhead: {number} bytes"),
    (5, "State Transition (VM_STATE_ON -> VM_STATE_EMIGRATING)"),
    (5, "Time to gather Snapshot information ( read from disk, build tree): {digit} msecs."),
    (4, 'DISKLIB-LIB   : Opened "/vmfs/volumes/{hex}/disk.vmdk" (flags {hex})'),
    (4, "Guest operation {number} in the guest ended with code 0"),
    (3, "FetchDVPortgroups returns {small} port groups in {small} ms"),
    (3, "Got vmdb connection for host {hex}"),
    (3, "Refreshing datastore list: {small} datastores, {digit} unmounted"),
    (2, "Sampling of {small} counters was late by {small} ms"),
    (1, "Unmap: Automatic space reclamation is set to low on {small} volumes"),
)

VOBD: tuple[Template, ...] = (
    (10, "[vob.user.ssh.session.opened] SSH session was opened for 'root@192.0.2.{small}'."),
    (10, "[vob.user.ssh.session.closed] SSH session was closed for 'root@192.0.2.{small}'."),
    (
        6,
        "[vob.net.pg.uplink.transition.up] Uplink: vmnic{digit} is up. Portgroup: guests-{digit}",
    ),
    (6, "[vob.iscsi.connection.started] iScsi connection {digit} started for vmhba64:C0:T{digit}"),
    (4, "[vob.user.iorm.nonviworkload] Detected a non vi workload on datastore scratch-{digit}"),
    (2, "[vob.net.dvport.uplink.transition.up] Uplink: vmnic{digit} is up, {small} dvports"),
)

SYSLOG: tuple[Template, ...] = (
    (12, "crond:USER root pid {world} cmd /sbin/hostd-probe.sh ++group=hostd-probe"),
    (10, "sshd:Connection from 192.0.2.{small} port {number}"),
    (10, "sshd:pam_unix(sshd:session): session opened for user root by (uid=0)"),
    (8, "sfcb-vmware_base:storelib Physical Device Device ID : {small}"),
    (8, "ntpd:offset {digit}.{small} ms, {small} peers"),
    (6, "root:backup of the configuration took {small} ms"),
    (4, "hostprofile:no profile is attached, nothing is applied"),
    (2, "snmpd:walk of {number} objects by 192.0.2.{small}"),
)  # fmt: skip

# Lines per minute. Older releases write fewer lines to vmware.log.
PACE = {"vmware": 1.9, "vmkernel": 17.0, "hostd": 22.0, "vobd": 0.4, "syslog": 3.0}
_TEMPLATES = {"vmware": VMX, "vmkernel": VMKERNEL, "hostd": HOSTD, "vobd": VOBD, "syslog": SYSLOG}
_VMX_THREADS = ("vmx", "vmx", "vmx", "vcpu-0", "vcpu-1", "mks", "svga", "vcpu-0")
_HOSTD_SUBS = (
    "Vimsvc.TaskManager",
    "Vimsvc.ha-eventmgr",
    "Libs",
    "Hostsvc",
    "PropertyProvider",
    "Vmsvc",
)
_CORRELATORS = ("GenericCorrelator", "netCorrelator", "UserLevelCorrelator", "iscsiCorrelator")
_KIND = re.compile(r"\{(\w+)\}")
# Number of ready-made texts per kind: choosing one is faster than creating one.
_POOL = 512

Draw = Callable[[], str]


class Chatter:
    """The noise of one log writer."""

    def __init__(self, fleet: Fleet, log_writer: LogWriter) -> None:
        self._fleet = fleet
        self._log_writer = log_writer
        self._rng: random.Random = fleet.rng("noise", log_writer.key)
        templates = _TEMPLATES[log_writer.program]
        self._weights = list(accumulate(weight for weight, _ in templates))
        self._drawn = self._draws()
        self._templates = [self._made(text) for _, text in templates]

    def _draws(self) -> dict[str, Draw]:
        """Return a function for each kind that chooses from ready-made texts."""
        rng = self._rng
        ready = {
            "digit": [str(rng.randrange(10)) for _ in range(_POOL)],
            "small": [str(rng.randrange(10, 999)) for _ in range(_POOL)],
            "number": [str(rng.randrange(1_000, 9_999_999)) for _ in range(_POOL)],
            "thousands": [str(rng.randrange(1, 900) * 1000) for _ in range(_POOL)],
            "world": [str(rng.randrange(1_000, 99_999)) for _ in range(_POOL)],
            "hex": [f"0x{rng.getrandbits(44):x}" for _ in range(_POOL)],
            "opid": [f"{rng.getrandbits(32):08x}" for _ in range(_POOL)],
        }
        chance = rng.random

        def draw(texts: list[str]) -> Draw:
            return lambda: texts[int(chance() * _POOL)]

        return {kind: draw(texts) for kind, texts in ready.items()}

    def _made(self, text: str) -> tuple[str, list[Draw]]:
        return _KIND.sub("%s", text.replace("%", "%%")), [
            self._drawn[kind] for kind in _KIND.findall(text)
        ]

    def entries(self) -> Iterator[Entry]:
        """Yield noise from the beginning to the end, in bursts as in real logs."""
        fleet, rng, program = self._fleet, self._rng, self._log_writer.program
        thread_of = self._threads(self._log_writer.host)
        span = fleet.ended_us - fleet.started_us
        count = max(2, int(PACE[program] * fleet.chatter * span / 60_000_000))
        gap_us = span / count
        at, order = float(fleet.started_us), 1 << 40
        chances, weights, templates = rng.random, self._weights, self._templates
        is_last = False
        while not is_last:
            # Two out of three lines follow the previous one within a moment.
            at += gap_us * (0.02 if chances() < 0.66 else 2.9) * (0.25 + 1.5 * chances())
            if at >= fleet.ended_us - 200 * MS:
                # The last line of the log: it proves that nothing else happened until then.
                at, is_last = fleet.ended_us - 50 * MS, True
            order += 1
            form, draws = rng.choices(templates, cum_weights=weights)[0]
            message = form % tuple(draw() for draw in draws)
            thread = thread_of()
            if program == "syslog":
                thread, _, message = message.partition(":")
            yield Entry(int(at) // MS * MS, order, message, thread, chances() < 0.02, False, False)

    def _threads(self, host: Host) -> Draw:
        rng, program = self._rng, self._log_writer.program
        if program == "vmkernel":
            least = 1024 if host.era.is_yearless else 32_768
            ready = [cpu(rng, host, rng.randrange(least, least + 900)) for _ in range(_POOL)]
        else:
            names = {
                "vmware": _VMX_THREADS, "hostd": _HOSTD_SUBS, "vobd": _CORRELATORS,
                "syslog": ("root",),
            }[program]  # fmt: skip
            ready = [rng.choice(names) for _ in range(_POOL)]
        chance = rng.random
        return lambda: ready[int(chance() * _POOL)]
