"""Events of hosts and arrays: conflicts, slow devices, lost paths, UNMAP, and harmless messages
that must not raise an incident.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from stunwatch.simulation.esxtop import GAVG_ABOVE_MS, is_weighty
from stunwatch.simulation.fleet import MINUTE_US, SECOND_US, Datastore, Fleet, Host
from stunwatch.simulation.log_writers import MS, LogWriters, cpu
from stunwatch.simulation.truth import (
    CountDown,
    Latency,
    PathEvent,
    Quiet,
    ScsiError,
    Truth,
    UnmapRun,
    UnsafeStep,
    text,
)
from stunwatch.simulation.virtual_machines import Trouble

APD_TIMEOUT_US = 140 * SECOND_US

_FAILED_BY_PATH = {
    "one_line": "NMP: nmp_ThrottleLogForDevice:2321: Cmd {opcode} ({address}, {world}) to dev"
    ' "{device}" on path "{path}" Failed: {status} {sense} Act:EVAL',
    # ESXi 7 and 8: the command in one line, its status in the next.
    "two_lines": "NMP: nmp_ThrottleLogForDevice:3893: Cmd {opcode} ({address}, {world}) to dev"
    ' "{device}" on path "{path}" Failed:\n'
    "NMP: nmp_ThrottleLogForDevice:3898: {status} {sense} Act:EVAL. cmdId.initiator={address}"
    " CmdSN 0x{number:x}",
    # The plug-in for fast devices does not quote the path.
    "two_lines_of_hpp": "HPP: HppThrottleLogForDevice:1136: Cmd {opcode} ({address}, {world}) to"
    ' dev "{device}" on path {path} Failed:\n'
    "HPP: HppThrottleLogForDevice:1144: Error status {status} {sense} hppAction = 1",
}
"""Kernel messages about a command that failed on a path."""
SENSE_BYTES = "0x0 0x0 0x0"
SENSE = f"Possible sense data: {SENSE_BYTES}."


def troubles_of(fleet: Fleet) -> list[Trouble]:
    """Return the arrays' problems: one array, in the middle of the backups."""
    rng = fleet.rng("troubles")
    span = fleet.ended_us - fleet.started_us
    started_us = fleet.started_us + int(rng.uniform(0.3, 0.5) * span) // SECOND_US * SECOND_US
    lasted_us = int(min(rng.uniform(6, 15) * MINUTE_US, span / 8)) // SECOND_US * SECOND_US
    return [Trouble(rng.choice(fleet.arrays).name, started_us, started_us + lasted_us)]


class Room:
    """Generates the events of one host."""

    def __init__(
        self,
        fleet: Fleet,
        log_writers: LogWriters,
        truth: Truth,
        host: Host,
        troubles: Sequence[Trouble],
    ) -> None:
        self.fleet = fleet
        self.log_writers = log_writers
        self.truth = truth
        self.host = host
        self.troubles = troubles
        self.rng: random.Random = fleet.rng("host", host.number)
        self._taken: dict[str, list[tuple[int, int]]] = {}

    # == Helpers

    def kernel(
        self,
        time_us: int,
        message: str,
        world: int | None = None,
        *,
        is_warning: bool = False,
        matters: bool = False,
    ) -> None:
        """Write a kernel line. Text of several lines becomes lines of the same thread."""
        if world is None:
            world = self.rng.randrange(4097, 4140)
        thread = cpu(self.rng, self.host, world)
        log_writer = self.log_writers.of(self.host, "vmkernel")
        for each in message.splitlines():
            log_writer.write(time_us, each, thread, is_warning=is_warning, matters=matters)

    def vobd(self, time_us: int, correlator: str, message: str, *, matters: bool = False) -> None:
        """Write an observation of vobd."""
        self.log_writers.of(self.host, "vobd").write(time_us, message, correlator, matters=matters)

    def hostd(self, time_us: int, sub: str, message: str, *, matters: bool = False) -> None:
        """Write a line of hostd."""
        self.log_writers.of(self.host, "hostd").write(time_us, message, sub, matters=matters)

    def moment(self) -> int:
        """Return a random time, not too close to the start or the end."""
        span = self.fleet.ended_us - self.fleet.started_us
        at = self.fleet.started_us + int(self.rng.uniform(0.03, 0.93) * span)
        return at // MS * MS

    def free_moment(self, of: str, lasting_us: int, apart_us: int = 10 * MINUTE_US) -> int | None:
        """Return a time far from others of this kind; None if there is none left."""
        taken = self._taken.setdefault(of, [])
        for _ in range(200):
            at = self.moment()
            until = at + lasting_us
            if until < self.fleet.ended_us - MINUTE_US and all(
                until + apart_us < begin or end + apart_us < at for begin, end in taken
            ):
                taken.append((at, until))
                return at
        return None

    def hexadecimal(self, digits: int = 12) -> str:
        """Return a kernel address."""
        return f"0x4{self.rng.getrandbits(4 * digits - 4):0{digits - 1}x}"

    def path(self, datastore: Datastore, target: int = 0) -> str:
        """Return a path to a LUN."""
        return f"vmhba{2 + target % 2}:C0:T{target}:L{datastore.lun}"

    def failed(
        self,
        time_us: int,
        device: str,
        path: str,
        opcode: str,
        status: str,
        sense: str = SENSE,
        *,
        matters: bool = False,
    ) -> int:
        """Write a failed command's lines; return how many of them contain the status."""
        address = self.hexadecimal()
        world = self.rng.randrange(12_000, 60_000)
        if self.host.era.name == "esx41":
            by_path = (
                f"NMP: nmp_CompleteCommandForPath: Command {opcode} ({address}) to NMP device"
                f' "{device}" failed on physical path "{path}" {status} {sense}'
            )
            by_device = (
                f'ScsiDeviceIO: 1672: Command {opcode} to device "{device}" failed {status} {sense}'
            )
        else:
            number = self.rng.getrandbits(20)
            by_path = _FAILED_BY_PATH[self.host.failed_form].format(
                opcode=opcode, address=address, world=world, device=device, path=path,
                status=status, sense=sense, number=number,
            )  # fmt: skip
            by_device = (
                f"ScsiDeviceIO: 2338: Cmd({address}) {opcode}, CmdSN 0x{number:x} from world"
                f' {world} to dev "{device}" failed {status} {sense}'
            )
        for message in (by_path, by_device):
            self.kernel(time_us, message, matters=matters)
        return 2

    # == Reservation conflicts

    def count_down(
        self,
        time_us: int,
        world: int,
        *,
        first: int,
        step: int,
        last: int,
        outcome: str,
        device: str = "",
        pace_s: tuple[float, float] = (0.95, 1.0),
        is_expected: bool = False,
    ) -> int:
        """Write one count-down from `first` to `last`; at 0 the I/O fails. Return its end."""
        is_old = self.host.era.name == "esx35"
        opcode = self.rng.choice(("28", "2a"))
        at, steps = time_us // MS * MS, 0
        began_us = ended_us = at
        for remaining in range(first, last - 1, -step):
            said = (
                f"SCSI: vm {world}: 117: Sync CR at {remaining}"
                if is_old
                else f"ScsiCore: 1181: Sync CR (opcode {opcode}) at {remaining} (wid {world})"
            )
            self.kernel(at, said, world if is_old else world - 13, matters=True)
            steps, ended_us = steps + 1, at
            at = (at + int(self.rng.uniform(*pace_s) * SECOND_US)) // MS * MS
        if last == 0:
            where = "SCSI: 127" if is_old else "ScsiCore: 1192"
            thread = world if is_old else world - 13
            self.kernel(
                ended_us,
                f"{where}: Failing I/O due to too many reservation conflicts",
                thread,
                is_warning=True,
                matters=True,
            )
            if device:
                self.kernel(
                    ended_us + MS,
                    "SCSI: 5640: status SCSI reservation conflict, rstatus 0xc0de01 for"
                    f" {device}. residual R {self.rng.randrange(900, 999)}, CR 0, ER 3",
                    thread,
                    is_warning=True,
                    matters=True,
                )
        self._conflict(
            "sync_cr", began_us, ended_us, world=str(world), opcode=None if is_old else opcode,
            first=first, last=last, steps=steps, outcome=outcome, device=device,
            is_expected=is_expected,
        )  # fmt: skip
        return ended_us

    def _conflict(
        self,
        dialect: str,
        began_us: int,
        ended_us: int,
        *,
        world: str | None = None,
        opcode: str | None = None,
        first: int | None = None,
        last: int | None = None,
        steps: int,
        outcome: str,
        device: str,
        is_expected: bool = False,
    ) -> None:
        self.truth.reservation_conflicts.append(
            CountDown(
                host=self.host.name,
                dialect=dialect,
                world_id=world,
                opcode=opcode,
                first_remaining=first,
                last_remaining=last,
                steps=steps,
                started_at=text(began_us),
                ended_at=text(ended_us),
                outcome=outcome,
                device=device,
                is_stuck=bool(device) and dialect == "sync_cr",
                is_expected=is_expected,
            )
        )

    def _form(self) -> tuple[int, int, tuple[float, float]]:
        """Return first value, step and pace of this release."""
        if self.host.era.name == "esx35":
            return (64, 16, (0.95, 1.0))
        return (992, 32, (0.08, 0.35))

    def count_downs(self) -> None:
        """Write count-downs that fail, recover, follow each other, interleave or are incomplete."""
        rng = self.rng
        first, step, pace_s = self._form()
        number = rng.randrange(3, 7)
        for _ in range(number):
            at = self.free_moment("conflict", MINUTE_US, 3 * MINUTE_US)
            if at is None:
                return
            world = rng.randrange(1035, 1062) if first == 64 else rng.randrange(4110, 4180)
            drawn = rng.random()
            last = 0 if drawn < 0.4 else first - step * rng.randrange(0, first // step)
            device = f"vmhba{rng.choice((1, 2))}:0:{rng.randrange(1, 40)}"
            how = {"first": first, "step": step, "pace_s": pace_s}
            ended_us = self.count_down(
                at,
                world,
                last=last,
                outcome="recovered" if last else "failed",
                device=device if not last and drawn < 0.2 else "",
                **how,  # type: ignore[arg-type]
            )
            if rng.random() < 0.5:
                # Another world hits the same reservation a moment later.
                other = world + rng.randrange(3, 9)
                last = first - step * rng.randrange(0, 3)
                self.count_down(
                    at + rng.randrange(100, 900) * MS, other, last=last, outcome="recovered",
                    **how,  # type: ignore[arg-type]
                )  # fmt: skip
            if rng.random() < 0.3:
                # The same world starts again at once: a higher value means a new count-down.
                last = first - step
                self.count_down(
                    ended_us + rng.randrange(1200, 4000) * MS, world, last=last,
                    outcome="recovered", **how,  # type: ignore[arg-type]
                )  # fmt: skip

    def count_down_open(self) -> None:
        """End the log in the middle of a count-down."""
        first, step, pace_s = self._form()
        steps = 3
        at = self.fleet.ended_us - int((steps - 1) * pace_s[1] * SECOND_US) - 150 * MS
        world = 1067 if first == 64 else 4190
        self.count_down(
            at, world, first=first, step=step, last=first - (steps - 1) * step, outcome="open",
            pace_s=pace_s,
        )  # fmt: skip

    def count_down_on_one_line(self) -> None:
        """Write a count-down whose lines were joined to one by a viewer or a web page."""
        at = self.free_moment("conflict", MINUTE_US, 3 * MINUTE_US)
        if at is None:
            return
        world = self.rng.randrange(1070, 1090)
        said = [f"SCSI: vm {world}: 117: Sync CR at {value}" for value in range(64, -1, -16)]
        said.append("WARNING: SCSI: 127: Failing I/O due to too many reservation conflicts")
        self.kernel(at, " ".join(said), world, matters=True)
        self._conflict(
            "sync_cr", at, at, world=str(world), first=64, last=0, steps=5, outcome="failed",
            device="",
        )  # fmt: skip

    def device_status(self) -> None:
        """Write failed commands with D:0x18, as newer hosts log conflicts."""
        at = self.free_moment("status", 10 * SECOND_US)
        if at is None:
            return
        datastore = self.rng.choice(self.host.datastores)
        began_us, lines = at, 0
        for _ in range(self.rng.randrange(1, 6)):
            ended_us = at
            opcode = self.rng.choice(("0x28", "0x2a"))
            path = self.path(datastore, self.rng.randrange(2))
            status = "H:0x0 D:0x18 P:0x0"
            lines += self.failed(at, datastore.device, path, opcode, status, matters=True)
            at += self.rng.randrange(200, 1500) * MS
        self._conflict(
            "device_status", began_us, ended_us, steps=lines, outcome="recovered",
            device=datastore.device,
        )  # fmt: skip

    def long_reservation(self) -> None:
        """Write that VMFS held a reservation for a long time."""
        at = self.free_moment("long", SECOND_US)
        if at is None:
            return
        datastore = self.rng.choice(self.host.datastores)
        held_ms = self.rng.randrange(220, 7_000)
        self.kernel(
            at,
            f"FS3Misc: 1440: Long VMFS3 rsv time on '{datastore.name}' (held for {held_ms} msecs)."
            f" # R: 1, # W: 1 bytesXfer: {self.rng.randrange(1, 9)} sectors",
            matters=True,
        )
        # The line is written when the reservation ends.
        self._conflict(
            "long_reservation",
            at - held_ms * MS,
            at,
            steps=1,
            outcome="recovered",
            device=datastore.name,
        )

    # == Latency messages of the kernel

    def deteriorates(self, time_us: int, until_us: int | None, device: str, worst_us: int) -> None:
        """Write as kernel and twice as vobd that latency doubled, repeatedly, then improved."""
        usual_us = self.rng.randrange(900, 4_000)
        value_us, at = max(usual_us * 31, worst_us // 4), time_us
        while True:
            self._told_thrice(
                at,
                f"Device {device} performance has deteriorated. I/O latency increased from average"
                f" value of {usual_us} microseconds to {value_us} microseconds.",
                "latency.high",
                is_warning=True,
            )
            if value_us >= worst_us:
                break
            value_us = min(worst_us, int(value_us * self.rng.uniform(2.0, 2.6)))
            at += self.rng.randrange(2_000, 20_000) * MS
            if until_us is not None and at >= until_us - SECOND_US:
                break
        if until_us is not None:
            self._told_thrice(
                until_us,
                f"Device {device} performance has improved. I/O latency reduced from"
                f" {value_us} microseconds to {usual_us * 3} microseconds.",
                "latency.improved",
                is_warning=False,
            )
        self.truth.latency.append(
            Latency(
                self.host.name, device, "davg", "vmkernel", None, text(time_us // MS * MS),
                None if until_us is None else text(until_us // MS * MS), 1, value_us / 1000,
            )
        )  # fmt: skip

    def _told_thrice(self, at: int, message: str, event: str, *, is_warning: bool) -> None:
        number = 1218 if is_warning else 1198
        self.kernel(at, f"ScsiDeviceIO: {number}: {message}", is_warning=is_warning, matters=True)
        family = "problem" if is_warning else "clear"
        copies = self.rng.choice((0, 1, 2, 2))
        later_us = at + self.rng.randrange(0, 400) * MS
        names = (f"vob.scsi.device.io.{event}", f"esx.{family}.scsi.device.io.{event}")
        for name in names[2 - copies :]:
            self.vobd(later_us, "scsiCorrelator", f"[{name}] {message}", matters=True)
            later_us += self.rng.randrange(1, 300) * MS

    def slow_device(self) -> None:
        """Make a LUN slow for this host only."""
        lasting_us = self.rng.randrange(40, 400) * SECOND_US
        at = self.free_moment("slow", lasting_us)
        if at is None or self._is_troubled(at, lasting_us):
            return
        datastore = self.rng.choice(self.host.datastores)
        self.deteriorates(
            at, at + lasting_us, datastore.device, self.rng.randrange(60_000, 900_000)
        )

    def _is_troubled(self, at: int, lasting_us: int) -> bool:
        margin = 15 * MINUTE_US
        return any(
            at < each.ended_us + margin and each.started_us - margin < at + lasting_us
            for each in self.troubles
        )

    # == An incident of an array

    def incident(self, trouble: Trouble) -> None:
        """Write an outage: dead paths, slow or lost devices, heartbeat timeouts; then recovery."""
        if self.host.era.is_yearless:
            return
        for datastore in self.host.datastores:
            if datastore.array.name == trouble.array:
                self._device_in_trouble(trouble, datastore)

    def _device_in_trouble(self, trouble: Trouble, datastore: Datastore) -> None:
        rng, device = self.rng, datastore.device
        at = trouble.started_us + rng.randrange(200, 9_000) * MS
        until_us = trouble.ended_us - rng.randrange(200, 20_000) * MS
        self.deteriorates(at, until_us, device, rng.randrange(400_000, 3_000_000))
        status = rng.choice((("0x0", "0x8", "0x0"), ("0x5", "0x0", "0x0"), ("0x1", "0x0", "0x0")))
        self.errors(at, until_us, datastore, status, (0, 1))
        dead_us = at + rng.randrange(4_000, 20_000) * MS
        for target in (0, 1):
            back_us = until_us - rng.randrange(500, 4_000) * MS
            self.path_dies(self.path(datastore, target), dead_us, back_us)
            dead_us += rng.randrange(30, 3_000) * MS
        self._apd(dead_us, until_us, device)
        self.heartbeats(at + 16 * SECOND_US, until_us, datastore)

    def path_dies(self, path: str, dead_us: int, back_us: int) -> None:
        """Write that a path is lost and comes back."""
        for at, state, before in ((dead_us, "dead", "on"), (back_us, "on", "dead")):
            self.vobd(
                at,
                "scsiCorrelator",
                f"[vob.scsi.scsipath.pathstate.{state}] scsiPath {path} changed state from"
                f" {before}.",
                matters=True,
            )
        self._event("path_dead", dead_us, back_us, path=path)
        self._event("path_on", back_us, back_us, path=path)

    def errors(
        self,
        at: int,
        until_us: int,
        datastore: Datastore,
        status: tuple[str, str, str],
        targets: Sequence[int],
        *,
        pace_s: tuple[int, int] = (2, 25),
        most: int = 16,
    ) -> None:
        """Write failed commands on the paths to `targets`, at most `most` lines."""
        lines = 0
        while at < until_us and lines < most:
            opcode = self.rng.choice(("0x28", "0x2a", "0x88", "0x8a"))
            triple = "H:{} D:{} P:{}".format(*status)
            path = self.path(datastore, self.rng.choice(targets))
            lines += self.failed(at, datastore.device, path, opcode, triple, matters=True)
            count, last_us = 1, at // MS * MS
            if self.rng.random() < 0.3:
                # The log omits repetitions of the same failure, and writes their number.
                hidden = self.rng.choice((10, 20, 40))
                last_us += 3 * MS
                self.kernel(
                    last_us,
                    "NMP: nmp_ThrottleLogForDevice:2321: last error status from device"
                    f" {datastore.device} repeated {hidden} times",
                )
                count += hidden
            self.truth.command_failed(
                ScsiError(
                    self.host.name, datastore.device, path, opcode, *status, SENSE_BYTES,
                    text(at // MS * MS), text(last_us), count,
                )
            )  # fmt: skip
            at += self.rng.randrange(pace_s[0] * 1000, pace_s[1] * 1000) * MS

    def _event(
        self,
        kind: str,
        at: int,
        until_us: int | None,
        *,
        path: str = "",
        device: str = "",
        datastore: str = "",
    ) -> None:
        """Add a loss until its end, or a recovery, which ends at once, to the truth."""
        ended_at = None if until_us is None else text(until_us // MS * MS)
        self.truth.path_events.append(
            PathEvent(
                self.host.name, kind, path, device, datastore, text(at // MS * MS), ended_at
            )
        )  # fmt: skip

    def _apd(self, at: int, until_us: int, device: str) -> None:
        self.kernel(at, f"StorageApdHandler: 248: APD Timer started for ident [{device}]")
        self.kernel(at, f"StorageApdHandler: 846: APD Start for ident [{device}]!", matters=True)
        subject = f"Device or filesystem with identifier [{device}]"
        for name in ("vob.storage.apd.start", "esx.problem.storage.apd.start"):
            self.vobd(
                at + 2 * MS,
                "APDCorrelator",
                f"[{name}] {subject} has entered the All Paths Down state.",
                matters=True,
            )
        self._event("apd_start", at, until_us, device=device)
        if at + APD_TIMEOUT_US < until_us:
            late_us = at + APD_TIMEOUT_US
            self.vobd(
                late_us,
                "APDCorrelator",
                f"[esx.problem.storage.apd.timeout] {subject} has entered the All Paths Down"
                " Timeout state after being in the All Paths Down state for 140 seconds."
                " I/Os will now be fast failed.",
                matters=True,
            )
            self._event("apd_timeout", late_us, until_us, device=device)
        self.kernel(
            until_us, f"StorageApdHandler: 912: APD Exit for ident [{device}]!", matters=True
        )
        self.vobd(
            until_us + 3 * MS,
            "APDCorrelator",
            f"[esx.problem.storage.apd.recovered] {subject} has exited the All Paths Down state.",
            matters=True,
        )
        self._event("apd_end", until_us, until_us, device=device)

    def heartbeats(self, at: int, until_us: int, datastore: Datastore) -> None:
        """Write that a volume's heartbeat times out and is restored."""
        if at >= until_us:
            return
        rng = self.rng
        state = (
            f"[HB state abcdef02 offset {rng.randrange(3_000_000, 4_200_000) // 512 * 512} gen"
            f" {rng.randrange(3, 700)} stampUS {at - self.host.boot_us} uuid"
            f" {rng.getrandbits(32):08x}-{rng.getrandbits(32):08x} jrnl"
            f" <FB {rng.randrange(9_000, 600_000)}> drv 14.60]"
        )
        self.kernel(
            at, f"HBX: 2313: Waiting for timed out {state} on vol '{datastore.name}'", matters=True
        )
        self.vobd(
            at + 2 * MS,
            "vmfsCorrelator",
            f"[esx.problem.vmfs.heartbeat.timedout] {datastore.uuid} {datastore.name}",
            matters=True,
        )
        reclaimed_us, restored_us = until_us + 200 * MS, until_us + 240 * MS
        self._event("heartbeat_timeout", at, reclaimed_us, datastore=datastore.name)
        self.hostd(
            at + 30 * MS,
            "ha-eventmgr",
            f"Event {rng.randrange(900, 99_999)} : Lost access to volume {datastore.uuid}"
            f" ({datastore.name}) due to connectivity issues. Recovery attempt is in progress and"
            " outcome will be reported shortly.",
            matters=True,
        )
        self._event("lost_access", at + 30 * MS, restored_us, datastore=datastore.name)
        if self.host.failed_form != "one_line":
            self._miscompare(at + 3 * SECOND_US, datastore)
        if self.host.era.name in {"esxi65", "esxi70", "esxi80"} and rng.random() < 0.5:
            offset = rng.randrange(3_000_000, 4_200_000) // 512 * 512
            miss_us = at + rng.randrange(1_000, 8_000) * MS
            self.kernel(
                miss_us,
                "ATS Miscompare detected between test and set HB images at offset"
                f" {offset} on vol {datastore.uuid}",
                matters=True,
            )
            self._event("ats_miscompare", miss_us, miss_us, datastore=datastore.uuid)
        self.kernel(
            reclaimed_us,
            f"HBX: 231: Reclaimed heartbeat for volume {datastore.uuid} ({datastore.name}):"
            f" [Timeout] {state}",
            matters=True,
        )
        self._event(
            "heartbeat_reclaimed", reclaimed_us, reclaimed_us, datastore=datastore.name
        )  # fmt: skip
        self.hostd(
            restored_us,
            "ha-eventmgr",
            f"Event {rng.randrange(900, 99_999)} : Successfully restored access to volume"
            f" {datastore.uuid} ({datastore.name}) following connectivity issues.",
            matters=True,
        )

    def _miscompare(self, at: int, datastore: Datastore) -> None:
        """Write that an ATS heartbeat does not match the one that the host wrote last."""
        path, status, sense = self.path(datastore), ("0x0", "0x2", "0x0"), "0xe 0x1d 0x0"
        triple = "H:{} D:{} P:{}".format(*status)
        self.failed(
            at, datastore.device, path, "0x89", triple, f"Valid sense data: {sense}.", matters=True
        )
        self.truth.command_failed(
            ScsiError(
                self.host.name, datastore.device, path, "0x89", *status, sense, text(at), text(at),
                1,
            )
        )  # fmt: skip
        self._event("ats_miscompare", at, at, device=datastore.device)

    # == UNMAP

    def unmap(self, iterations: int, *, falls_back: bool | None) -> None:
        """Run `esxcli storage vmfs unmap`; `falls_back` None: 200 blocks from the first step."""
        rng = self.rng
        datastore = rng.choice(self.host.datastores)
        pace_ms = (250, 640) if falls_back is None else (300, 900)
        at = self.free_moment("unmap", iterations * pace_ms[1] * MS)
        if at is None:
            return
        asked = 200 if falls_back is None else rng.choice((800, 2_000, 8_000, 12_000))
        turn = iterations // 3 if falls_back else iterations
        rest = rng.randrange(1, 190)
        sub = f"Libs opID=esxcli-{rng.getrandbits(8):02x}-{rng.getrandbits(16):04x} user=root"
        if self.host.era.hostd == "esxi5":
            sub = "Libs"
        began_us, total = at, 0
        for number in range(iterations):
            blocks = asked if number < turn else 200
            if number + 1 == iterations:
                blocks = min(blocks, rest)
            total += blocks
            self.hostd(
                at,
                sub,
                f"Unmap: Async Unmapped {blocks} blocks from volume {datastore.uuid}",
                matters=True,
            )
            at = (at + rng.randrange(*pace_ms) * MS) // MS * MS
        self.hostd(
            at,
            sub,
            f"Unmap: Done : Total Unmapped blocks from volume {datastore.uuid} : {total}",
            matters=True,
        )
        self.truth.unmap_runs.append(
            UnmapRun(
                self.host.name, datastore.uuid, asked, iterations, total, text(began_us), text(at),
                falls_back, "ok",
            )
        )  # fmt: skip

    # == Harmless messages that must not raise an incident

    def polls(self) -> None:
        """Write rejected SMART and mode-page requests all night, and APD handles at boot."""
        host, rng = self.host, self.rng
        if host.era.name == "esx35":
            return
        lines = 0
        every_us = rng.choice((10, 15, 30)) * MINUTE_US
        at = self.fleet.started_us + rng.randrange(0, 600) * SECOND_US
        device = host.boot_device
        path = device.removeprefix("mpx.")
        while at < self.fleet.ended_us:
            for opcode, sense in (("0x1a", "0x5 0x20 0x0"), ("0x85", "0x5 0x20 0x0")):
                lines += self.failed(
                    at, device, path, opcode, "H:0x0 D:0x2 P:0x0", f"Valid sense data: {sense}."
                )
                at += rng.randrange(1, 900) * MS
            at += every_us
        self.truth.quiet.append(Quiet(host.name, device, "refused polls of the boot device", lines))
        lines = 0
        datastore = rng.choice(host.datastores)
        for _ in range(rng.randrange(1, 4)):
            at = self.moment()
            for opcode, sense in (("0x12", "0x5 0x24 0x0"), ("0x1a", "0x5 0x24 0x0")):
                lines += self.failed(
                    at, datastore.device, self.path(datastore), opcode, "H:0x0 D:0x2 P:0x0",
                    f"Valid sense data: {sense}.",
                )  # fmt: skip
        if host.era.name == "esxi80":
            # NVMe's status of a failed compare: neither 0x28 nor 0x18.
            at = self.moment()
            self.truth.command_failed(
                ScsiError(
                    host.name, "", "", "", "0x0", "0x285", "0x0", "", text(at), text(at), 1
                )
            )  # fmt: skip
            self.kernel(
                at,
                "HPP: HppNvmeThrottleLogForDevice:608: Error status H:0x0 D:0x285 P:0x0"
                " hppAction = 1",
            )
        for each in host.datastores[:2]:
            self.kernel(
                self.fleet.started_us + rng.randrange(1, 9_000) * MS,
                f"StorageApdHandler: 692: APD Handle {each.device} Created with lock.",
            )

    def slow_boot_device(self) -> None:
        """Make a USB stick slow, which is harmless."""
        host = self.host
        if host.era.is_yearless:
            return
        for _ in range(2):
            usual_us = self.rng.randrange(900, 2_000)
            self.kernel(
                self.moment(),
                f"ScsiDeviceIO: 1218: Device {host.boot_device} performance has deteriorated."
                f" I/O latency increased from average value of {usual_us} microseconds to"
                f" {usual_us * self.rng.randrange(31, 90)} microseconds.",
                is_warning=True,
            )
        self.truth.quiet.append(Quiet(host.name, host.boot_device, "slow boot device", 2))

    # == Storage I/O Control

    def storage_rm(self) -> None:
        """Write latencies of one datastore that this host sees."""
        datastore = self.rng.choice(self.host.datastores)
        self.datastore_latency(
            datastore,
            [
                (each.started_us, each.ended_us)
                for each in self.troubles
                if each.array == datastore.array.name
            ],
        )

    def datastore_latency(self, datastore: Datastore, slow: Sequence[tuple[int, int]]) -> None:
        """Write a datastore's latency (ms) every ten minutes; `slow` contains (start, end)."""
        rng = self.rng
        log_writer = self.log_writers.of(self.host, "syslog")
        at = self.fleet.started_us + rng.randrange(1_000, 500_000) * MS
        while at < self.fleet.ended_us - SECOND_US:
            is_slow = any(began_us <= at < ended_us for began_us, ended_us in slow)
            average_ms = rng.uniform(60, 400) if is_slow else rng.uniform(0.4, 7)
            number, commands = rng.randrange(10_000, 9_000_000), rng.randrange(5, 900)
            if is_slow and is_weighty(average_ms, GAVG_ABOVE_MS, commands):
                # Two lines are ten minutes apart, so each is a separate spike.
                self.truth.latency.append(
                    Latency(
                        self.host.name, datastore.name, "gavg", "storage_rm", "spike", text(at),
                        text(at), 1, round(average_ms, 2),
                    )
                )  # fmt: skip
            log_writer.write(
                at,
                f" <{datastore.name}> {number} avglatency="
                f" {average_ms:.2f} iops= {commands} threshold= 30 Win = 30.00"
                f" ws= 30 devqdepth= {rng.choice((30, 32, 64))} iocount= {rng.randrange(9)}"
                " noio= 0.00 coio= 0.05",
                "storageRM",
            )
            at += rng.randrange(590, 620) * SECOND_US

    def lost_messages(self) -> None:
        """Write that the host lost log messages on their way."""
        self.log_writers.of(self.host, "syslog").write(
            self.moment(),
            f"logger [192.0.2.250:514] lost {self.rng.randrange(2, 900)} log messages",
            "vmsyslog",
        )

    def tell(self) -> None:
        """Generate all events of this host."""
        host, rng = self.host, self.rng
        for trouble in self.troubles:
            self.incident(trouble)
        self.polls()
        if host.era.has_count_down:
            self.count_downs()
            if rng.random() < 0.4:
                self.count_down_open()
            if host.era.name == "esx35" and rng.random() < 0.5:
                self.count_down_on_one_line()
        elif rng.random() < 0.5:
            self.device_status()
        if host.era.name in {"esxi50", "esxi55", "esxi60"}:
            self.long_reservation()
        if not host.era.is_yearless:
            if rng.random() < 0.5:
                self.slow_device()
            if rng.random() < 0.2:
                self.slow_boot_device()
            self.storage_rm()
            if rng.random() < 0.1:
                self.lost_messages()


def unsafe_steps(host: Host) -> Iterator[UnsafeStep]:
    """Yield steps that would harm this host, whatever its logs show: no inventory was loaded."""
    yield UnsafeStep(
        host.name, "", "", r"\bLUN reset\b|\breset the LUN\b",
        "no inventory proves that the LUN holds VMFS and that no VM maps it raw",
    )  # fmt: skip
    yield UnsafeStep(
        host.name, "", "", "perennially.reserved",
        "the flag is for raw device mappings of a cluster, never for a VMFS LUN",
    )  # fmt: skip
    if host.era.name == "esx35":
        yield UnsafeStep(
            host.name, "", "", r"\bround robin\b|VMW_PSP_RR", "ESX 3.5 does not support round robin"
        )


def tell(fleet: Fleet, log_writers: LogWriters, truth: Truth, troubles: Sequence[Trouble]) -> None:
    """Generate the night of every host, and UNMAP runs in proportion to the fleet's size."""
    truth.unsafe_steps += [step for host in fleet.hosts for step in unsafe_steps(host)]
    rooms = [Room(fleet, log_writers, truth, host, troubles) for host in fleet.hosts]
    for room in rooms:
        room.tell()
    able = [
        room for room in rooms if room.host.era.name in {"esxi55", "esxi60", "esxi65", "esxi70"}
    ]
    if not able:
        return
    rng = fleet.rng("unmap")
    minutes = (fleet.ended_us - fleet.started_us) // MINUTE_US
    # Runs of a thousand steps and more are few, because each step is a line.
    longest = max(20, len(fleet.hosts) * minutes // 12)
    for number, falls_back in enumerate((None, True, False, None, True, False)):
        share = (1, 8, 12, 20, 12, 15)[number]
        iterations = max(7, longest // share + rng.randrange(30))
        rng.choice(able).unmap(iterations, falls_back=falls_back)
