"""What happens to hosts and arrays: conflicts, slow devices, lost paths, UNMAP, and what must stay
quiet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from stunwatch.simulation.fleet import MINUTE_US, SECOND_US, Datastore, Fleet, Host
from stunwatch.simulation.journals import MS, Journals, cpu
from stunwatch.simulation.truth import (
    CountDown,
    Latency,
    PathEvent,
    Quiet,
    ScsiError,
    Truth,
    UnmapRun,
    text,
)
from stunwatch.simulation.virtual_machines import Trouble

APD_TIMEOUT_US = 140 * SECOND_US
SENSE = "Possible sense data: 0x0 0x0 0x0."


def troubles_of(fleet: Fleet) -> list[Trouble]:
    """When which array is in trouble: one, in the middle of the backups."""
    dice = fleet.dice("troubles")
    span = fleet.ended_us - fleet.started_us
    started_us = fleet.started_us + int(dice.uniform(0.3, 0.5) * span) // SECOND_US * SECOND_US
    lasted_us = int(min(dice.uniform(6, 15) * MINUTE_US, span / 8)) // SECOND_US * SECOND_US
    return [Trouble(dice.choice(fleet.arrays).name, started_us, started_us + lasted_us)]


class Room:
    """Tells what happens to one host."""

    def __init__(
        self,
        fleet: Fleet,
        journals: Journals,
        truth: Truth,
        host: Host,
        troubles: Sequence[Trouble],
    ) -> None:
        self.fleet = fleet
        self.journals = journals
        self.truth = truth
        self.host = host
        self.troubles = troubles
        self.dice: random.Random = fleet.dice("host", host.number)
        self._taken: dict[str, list[tuple[int, int]]] = {}

    # == Small parts

    def kernel(
        self,
        time_us: int,
        message: str,
        world: int | None = None,
        *,
        is_warning: bool = False,
        matters: bool = False,
    ) -> None:
        """A line of the kernel's."""
        if world is None:
            world = self.dice.randrange(4097, 4140)
        thread = cpu(self.dice, self.host, world)
        journal = self.journals.of(self.host, "vmkernel")
        journal.write(time_us, message, thread, is_warning=is_warning, matters=matters)

    def vobd(self, time_us: int, correlator: str, message: str, *, matters: bool = False) -> None:
        """An observation of vobd's."""
        self.journals.of(self.host, "vobd").write(time_us, message, correlator, matters=matters)

    def hostd(self, time_us: int, sub: str, message: str, *, matters: bool = False) -> None:
        """A line of hostd's."""
        self.journals.of(self.host, "hostd").write(time_us, message, sub, matters=matters)

    def moment(self) -> int:
        """Some time, not too near the ends."""
        span = self.fleet.ended_us - self.fleet.started_us
        at = self.fleet.started_us + int(self.dice.uniform(0.03, 0.93) * span)
        return at // MS * MS

    def free_moment(self, of: str, lasting_us: int, apart_us: int = 10 * MINUTE_US) -> int | None:
        """A time that nothing else of this kind comes near to; None if there is none left."""
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
        """A kernel address."""
        return f"0x4{self.dice.getrandbits(4 * digits - 4):0{digits - 1}x}"

    def path(self, datastore: Datastore, target: int = 0) -> str:
        """A path to a LUN."""
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
        """What the kernel writes for a failed command; returns how many lines."""
        address = self.hexadecimal()
        world = self.dice.randrange(12_000, 60_000)
        if self.host.era.name == "esx41":
            said = (
                f"NMP: nmp_CompleteCommandForPath: Command {opcode} ({address}) to NMP device"
                f' "{device}" failed on physical path "{path}" {status} {sense}',
                f'ScsiDeviceIO: 1672: Command {opcode} to device "{device}" failed'
                f" {status} {sense}",
            )
        else:
            said = (
                f"NMP: nmp_ThrottleLogForDevice:2321: Cmd {opcode} ({address}, {world}) to dev"
                f' "{device}" on path "{path}" Failed: {status} {sense} Act:EVAL',
                f"ScsiDeviceIO: 2338: Cmd({address}) {opcode}, CmdSN"
                f' 0x{self.dice.getrandbits(20):x} from world {world} to dev "{device}" failed'
                f" {status} {sense}",
            )
        for message in said:
            self.kernel(time_us, message, matters=matters)
        return len(said)

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
        """One run of a world, from `first` to `last`; at 0 the I/O fails. Returns its end."""
        is_old = self.host.era.name == "esx35"
        opcode = self.dice.choice(("28", "2a"))
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
            at = (at + int(self.dice.uniform(*pace_s) * SECOND_US)) // MS * MS
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
                    f" {device}. residual R {self.dice.randrange(900, 999)}, CR 0, ER 3",
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
                duration_ms=(ended_us - began_us) // MS,
                outcome=outcome,
                device=device,
                is_stuck=bool(device) and dialect == "sync_cr",
                is_expected=is_expected,
                has_exact_time=not self.host.era.is_yearless,
            )
        )

    def _form(self) -> tuple[int, int, tuple[float, float]]:
        """First value, step and pace of this version."""
        if self.host.era.name == "esx35":
            return (64, 16, (0.95, 1.0))
        return (992, 32, (0.08, 0.35))

    def count_downs(self) -> None:
        """Runs that fail, recover, follow each other, interleave, or are cut off by the end."""
        dice = self.dice
        first, step, pace_s = self._form()
        number = dice.randrange(3, 7)
        for _ in range(number):
            at = self.free_moment("conflict", MINUTE_US, 3 * MINUTE_US)
            if at is None:
                return
            world = dice.randrange(1035, 1062) if first == 64 else dice.randrange(4110, 4180)
            drawn = dice.random()
            last = 0 if drawn < 0.4 else first - step * dice.randrange(0, first // step)
            device = f"vmhba{dice.choice((1, 2))}:0:{dice.randrange(1, 40)}"
            how = {"first": first, "step": step, "pace_s": pace_s}
            ended_us = self.count_down(
                at,
                world,
                last=last,
                outcome="recovered" if last else "failed",
                device=device if not last and drawn < 0.2 else "",
                **how,  # type: ignore[arg-type]
            )
            if dice.random() < 0.5:
                # Another world meets the same reservation a moment later.
                other = world + dice.randrange(3, 9)
                last = first - step * dice.randrange(0, 3)
                self.count_down(
                    at + dice.randrange(100, 900) * MS, other, last=last, outcome="recovered",
                    **how,  # type: ignore[arg-type]
                )  # fmt: skip
            if dice.random() < 0.3:
                # The same world begins again at once: a higher value is a new run.
                last = first - step
                self.count_down(
                    ended_us + dice.randrange(1200, 4000) * MS, world, last=last,
                    outcome="recovered", **how,  # type: ignore[arg-type]
                )  # fmt: skip

    def count_down_open(self) -> None:
        """The log ends in the middle of a run."""
        first, step, pace_s = self._form()
        steps = 3
        at = self.fleet.ended_us - int((steps - 1) * pace_s[1] * SECOND_US) - 150 * MS
        world = 1067 if first == 64 else 4190
        self.count_down(
            at, world, first=first, step=step, last=first - (steps - 1) * step, outcome="open",
            pace_s=pace_s,
        )  # fmt: skip

    def count_down_on_one_line(self) -> None:
        """A whole run that a viewer or a page ran together."""
        at = self.free_moment("conflict", MINUTE_US, 3 * MINUTE_US)
        if at is None:
            return
        world = self.dice.randrange(1070, 1090)
        said = [f"SCSI: vm {world}: 117: Sync CR at {value}" for value in range(64, -1, -16)]
        said.append("WARNING: SCSI: 127: Failing I/O due to too many reservation conflicts")
        self.kernel(at, " ".join(said), world, matters=True)
        self._conflict(
            "sync_cr", at, at, world=str(world), first=64, last=0, steps=5, outcome="failed",
            device="",
        )  # fmt: skip

    def device_status(self) -> None:
        """Newer hosts: commands fail with D:0x18."""
        at = self.free_moment("status", 10 * SECOND_US)
        if at is None:
            return
        datastore = self.dice.choice(self.host.datastores)
        began_us, lines = at, 0
        for _ in range(self.dice.randrange(1, 6)):
            ended_us = at
            opcode = self.dice.choice(("0x28", "0x2a"))
            path = self.path(datastore, self.dice.randrange(2))
            status = "H:0x0 D:0x18 P:0x0"
            lines += self.failed(at, datastore.device, path, opcode, status, matters=True)
            at += self.dice.randrange(200, 1500) * MS
        self._conflict(
            "device_status", began_us, ended_us, steps=lines, outcome="recovered",
            device=datastore.device,
        )  # fmt: skip

    def long_reservation(self) -> None:
        """VMFS held a reservation for long."""
        at = self.free_moment("long", SECOND_US)
        if at is None:
            return
        datastore = self.dice.choice(self.host.datastores)
        held_ms = self.dice.randrange(220, 7_000)
        self.kernel(
            at,
            f"FS3Misc: 1440: Long VMFS3 rsv time on '{datastore.name}' (held for {held_ms} msecs)."
            f" # R: 1, # W: 1 bytesXfer: {self.dice.randrange(1, 9)} sectors",
            matters=True,
        )
        self._conflict(
            "long_reservation", at, at, steps=1, outcome="recovered", device=datastore.name
        )

    # == Latency that the kernel tells

    def deteriorates(self, time_us: int, until_us: int | None, device: str, worst_us: int) -> None:
        """Told by the kernel, and twice by vobd, each time that it doubled; then improved."""
        usual_us = self.dice.randrange(900, 4_000)
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
            value_us = min(worst_us, int(value_us * self.dice.uniform(2.0, 2.6)))
            at += self.dice.randrange(2_000, 20_000) * MS
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
                self.host.name, device, "davg", "vmkernel", text(time_us // MS * MS),
                None if until_us is None else text(until_us // MS * MS), None, 1, value_us / 1000,
            )
        )  # fmt: skip

    def _told_thrice(self, at: int, message: str, event: str, *, is_warning: bool) -> None:
        number = 1218 if is_warning else 1198
        self.kernel(at, f"ScsiDeviceIO: {number}: {message}", is_warning=is_warning, matters=True)
        family = "problem" if is_warning else "clear"
        copies = self.dice.choice((0, 1, 2, 2))
        later_us = at + self.dice.randrange(0, 400) * MS
        names = (f"vob.scsi.device.io.{event}", f"esx.{family}.scsi.device.io.{event}")
        for name in names[2 - copies :]:
            self.vobd(later_us, "scsiCorrelator", f"[{name}] {message}", matters=True)
            later_us += self.dice.randrange(1, 300) * MS

    def slow_device(self) -> None:
        """A LUN is slow for this host alone."""
        lasting_us = self.dice.randrange(40, 400) * SECOND_US
        at = self.free_moment("slow", lasting_us)
        if at is None or self._is_troubled(at, lasting_us):
            return
        datastore = self.dice.choice(self.host.datastores)
        self.deteriorates(
            at, at + lasting_us, datastore.device, self.dice.randrange(60_000, 900_000)
        )

    def _is_troubled(self, at: int, lasting_us: int) -> bool:
        margin = 15 * MINUTE_US
        return any(
            at < each.ended_us + margin and each.started_us - margin < at + lasting_us
            for each in self.troubles
        )

    # == An array's incident

    def incident(self, trouble: Trouble) -> None:
        """Paths die, devices are slow or away, heartbeats time out; then all comes back."""
        if self.host.era.is_yearless:
            return
        for datastore in self.host.datastores:
            if datastore.array.name == trouble.array:
                self._device_in_trouble(trouble, datastore)

    def _device_in_trouble(self, trouble: Trouble, datastore: Datastore) -> None:
        dice, device = self.dice, datastore.device
        at = trouble.started_us + dice.randrange(200, 9_000) * MS
        until_us = trouble.ended_us - dice.randrange(200, 20_000) * MS
        self.deteriorates(at, until_us, device, dice.randrange(400_000, 3_000_000))
        status = dice.choice((("0x0", "0x8", "0x0"), ("0x5", "0x0", "0x0"), ("0x1", "0x0", "0x0")))
        self.errors(at, until_us, datastore, status, (0, 1))
        dead_us = at + dice.randrange(4_000, 20_000) * MS
        for target in (0, 1):
            back_us = until_us - dice.randrange(500, 4_000) * MS
            self.path_dies(self.path(datastore, target), dead_us, back_us)
            dead_us += dice.randrange(30, 3_000) * MS
        self._apd(dead_us, until_us, device)
        self.heartbeats(at + 16 * SECOND_US, until_us, datastore)

    def path_dies(self, path: str, dead_us: int, back_us: int) -> None:
        """A path is lost, and comes back."""
        for kind, at, state, before in (
            ("path_dead", dead_us, "dead", "on"),
            ("path_on", back_us, "on", "dead"),
        ):
            self.vobd(
                at,
                "scsiCorrelator",
                f"[vob.scsi.scsipath.pathstate.{state}] scsiPath {path} changed state from"
                f" {before}.",
                matters=True,
            )
            self._event(kind, at, path=path)

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
        """Commands by the paths to `targets` fail with a status: at most so many lines."""
        count = 0
        began_us = at
        while at < until_us and count < most:
            opcode = self.dice.choice(("0x28", "0x2a", "0x88", "0x8a"))
            triple = "H:{} D:{} P:{}".format(*status)
            path = self.path(datastore, self.dice.choice(targets))
            count += self.failed(at, datastore.device, path, opcode, triple, matters=True)
            if self.dice.random() < 0.3:
                self.kernel(
                    at + 3 * MS,
                    "NMP: nmp_ThrottleLogForDevice:2321: last error status from device"
                    f" {datastore.device} repeated {self.dice.choice((10, 20, 40))} times",
                )
            at += self.dice.randrange(pace_s[0] * 1000, pace_s[1] * 1000) * MS
        self.truth.scsi_errors.append(
            ScsiError(self.host.name, datastore.device, *status, text(began_us), count)
        )

    def _event(
        self, kind: str, at: int, *, path: str = "", device: str = "", datastore: str = ""
    ) -> None:
        self.truth.path_events.append(
            PathEvent(self.host.name, kind, path, device, datastore, text(at // MS * MS))
        )

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
        self._event("apd_start", at, device=device)
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
            self._event("apd_timeout", late_us, device=device)
        self.kernel(
            until_us, f"StorageApdHandler: 912: APD Exit for ident [{device}]!", matters=True
        )
        self.vobd(
            until_us + 3 * MS,
            "APDCorrelator",
            f"[esx.problem.storage.apd.recovered] {subject} has exited the All Paths Down state.",
            matters=True,
        )
        self._event("apd_end", until_us, device=device)

    def heartbeats(self, at: int, until_us: int, datastore: Datastore) -> None:
        """A volume's heartbeat is not written in time, until it is."""
        if at >= until_us:
            return
        dice = self.dice
        state = (
            f"[HB state abcdef02 offset {dice.randrange(3_000_000, 4_200_000) // 512 * 512} gen"
            f" {dice.randrange(3, 700)} stampUS {at - self.host.boot_us} uuid"
            f" {dice.getrandbits(32):08x}-{dice.getrandbits(32):08x} jrnl"
            f" <FB {dice.randrange(9_000, 600_000)}> drv 14.60]"
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
        self._event("heartbeat_timeout", at, datastore=datastore.name)
        self.hostd(
            at + 30 * MS,
            "ha-eventmgr",
            f"Event {dice.randrange(900, 99_999)} : Lost access to volume {datastore.uuid}"
            f" ({datastore.name}) due to connectivity issues. Recovery attempt is in progress and"
            " outcome will be reported shortly.",
            matters=True,
        )
        self._event("lost_access", at + 30 * MS, datastore=datastore.name)
        if self.host.era.name in {"esxi65", "esxi70", "esxi80"} and dice.random() < 0.5:
            offset = dice.randrange(3_000_000, 4_200_000) // 512 * 512
            miss_us = at + dice.randrange(1_000, 8_000) * MS
            self.kernel(
                miss_us,
                "ATS Miscompare detected between test and set HB images at offset"
                f" {offset} on vol {datastore.uuid}",
                matters=True,
            )
            self._event("ats_miscompare", miss_us, datastore=datastore.uuid)
        self.kernel(
            until_us + 200 * MS,
            f"HBX: 231: Reclaimed heartbeat for volume {datastore.uuid} ({datastore.name}):"
            f" [Timeout] {state}",
            matters=True,
        )
        self._event("heartbeat_reclaimed", until_us + 200 * MS, datastore=datastore.name)
        self.hostd(
            until_us + 240 * MS,
            "ha-eventmgr",
            f"Event {dice.randrange(900, 99_999)} : Successfully restored access to volume"
            f" {datastore.uuid} ({datastore.name}) following connectivity issues.",
            matters=True,
        )

    # == UNMAP

    def unmap(self, iterations: int, *, falls_back: bool | None) -> None:
        """`esxcli storage vmfs unmap`; `falls_back` None: at 200 from its first step."""
        dice = self.dice
        datastore = dice.choice(self.host.datastores)
        pace_ms = (250, 640) if falls_back is None else (300, 900)
        at = self.free_moment("unmap", iterations * pace_ms[1] * MS)
        if at is None:
            return
        asked = 200 if falls_back is None else dice.choice((800, 2_000, 8_000, 12_000))
        turn = iterations // 3 if falls_back else iterations
        rest = dice.randrange(1, 190)
        sub = f"Libs opID=esxcli-{dice.getrandbits(8):02x}-{dice.getrandbits(16):04x} user=root"
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
            at = (at + dice.randrange(*pace_ms) * MS) // MS * MS
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

    # == What must stay quiet

    def polls(self) -> None:
        """SMART and mode-page polls that devices refuse, all night; and boot's APD handles."""
        host, dice = self.host, self.dice
        if host.era.name == "esx35":
            return
        lines = 0
        every_us = dice.choice((10, 15, 30)) * MINUTE_US
        at = self.fleet.started_us + dice.randrange(0, 600) * SECOND_US
        device = host.boot_device
        path = device.removeprefix("mpx.")
        while at < self.fleet.ended_us:
            for opcode, sense in (("0x1a", "0x5 0x20 0x0"), ("0x85", "0x5 0x20 0x0")):
                lines += self.failed(
                    at, device, path, opcode, "H:0x0 D:0x2 P:0x0", f"Valid sense data: {sense}."
                )
                at += dice.randrange(1, 900) * MS
            at += every_us
        self.truth.quiet.append(Quiet(host.name, device, "refused polls of the boot device", lines))
        lines = 0
        datastore = dice.choice(host.datastores)
        for _ in range(dice.randrange(1, 4)):
            at = self.moment()
            for opcode, sense in (("0x12", "0x5 0x24 0x0"), ("0x1a", "0x5 0x24 0x0")):
                lines += self.failed(
                    at, datastore.device, self.path(datastore), opcode, "H:0x0 D:0x2 P:0x0",
                    f"Valid sense data: {sense}.",
                )  # fmt: skip
        if host.era.name == "esxi80":
            # NVMe's status of a failed compare: neither 0x28 nor 0x18.
            at = self.moment()
            self.truth.scsi_errors.append(
                ScsiError(host.name, "", "0x0", "0x285", "0x0", text(at), 1)
            )
            self.kernel(
                at,
                "HPP: HppNvmeThrottleLogForDevice:608: Error status H:0x0 D:0x285 P:0x0"
                " hppAction = 1",
            )
        for each in host.datastores[:2]:
            self.kernel(
                self.fleet.started_us + dice.randrange(1, 9_000) * MS,
                f"StorageApdHandler: 692: APD Handle {each.device} Created with lock.",
            )

    def slow_boot_device(self) -> None:
        """A USB stick is slow, and that is nobody's trouble."""
        host = self.host
        if host.era.is_yearless:
            return
        for _ in range(2):
            usual_us = self.dice.randrange(900, 2_000)
            self.kernel(
                self.moment(),
                f"ScsiDeviceIO: 1218: Device {host.boot_device} performance has deteriorated."
                f" I/O latency increased from average value of {usual_us} microseconds to"
                f" {usual_us * self.dice.randrange(31, 90)} microseconds.",
                is_warning=True,
            )
        self.truth.quiet.append(Quiet(host.name, host.boot_device, "slow boot device", 2))

    # == Storage I/O Control

    def storage_rm(self) -> None:
        """Of one datastore that this host sees."""
        datastore = self.dice.choice(self.host.datastores)
        self.datastore_latency(
            datastore,
            [
                (each.started_us, each.ended_us)
                for each in self.troubles
                if each.array == datastore.array.name
            ],
        )

    def datastore_latency(self, datastore: Datastore, slow: Sequence[tuple[int, int]]) -> None:
        """A datastore's latency every ten minutes, in milliseconds; `slow`: from when to when."""
        dice = self.dice
        journal = self.journals.of(self.host, "syslog")
        at = self.fleet.started_us + dice.randrange(1_000, 500_000) * MS
        while at < self.fleet.ended_us - SECOND_US:
            is_slow = any(began_us <= at < ended_us for began_us, ended_us in slow)
            average_ms = dice.uniform(60, 400) if is_slow else dice.uniform(0.4, 7)
            journal.write(
                at,
                f" <{datastore.name}> {dice.randrange(10_000, 9_000_000)} avglatency="
                f" {average_ms:.2f} iops= {dice.randrange(5, 900)} threshold= 30 Win = 30.00"
                f" ws= 30 devqdepth= {dice.choice((30, 32, 64))} iocount= {dice.randrange(9)}"
                " noio= 0.00 coio= 0.05",
                "storageRM",
            )
            at += dice.randrange(590, 620) * SECOND_US

    def lost_messages(self) -> None:
        """The host says that it lost lines on their way."""
        self.journals.of(self.host, "syslog").write(
            self.moment(),
            f"logger [192.0.2.250:514] lost {self.dice.randrange(2, 900)} log messages",
            "vmsyslog",
        )

    def tell(self) -> None:
        """Everything that happens to this host."""
        host, dice = self.host, self.dice
        for trouble in self.troubles:
            self.incident(trouble)
        self.polls()
        if host.era.has_count_down:
            self.count_downs()
            if dice.random() < 0.4:
                self.count_down_open()
            if host.era.name == "esx35" and dice.random() < 0.5:
                self.count_down_on_one_line()
        elif dice.random() < 0.5:
            self.device_status()
        if host.era.name in {"esxi50", "esxi55", "esxi60"}:
            self.long_reservation()
        if not host.era.is_yearless:
            if dice.random() < 0.5:
                self.slow_device()
            if dice.random() < 0.2:
                self.slow_boot_device()
            self.storage_rm()
            if dice.random() < 0.1:
                self.lost_messages()


def tell(fleet: Fleet, journals: Journals, truth: Truth, troubles: Sequence[Trouble]) -> None:
    """The night of every host, and a few UNMAP runs in proportion to the fleet."""
    rooms = [Room(fleet, journals, truth, host, troubles) for host in fleet.hosts]
    for room in rooms:
        room.tell()
    able = [
        room for room in rooms if room.host.era.name in {"esxi55", "esxi60", "esxi65", "esxi70"}
    ]
    if not able:
        return
    dice = fleet.dice("unmap")
    minutes = (fleet.ended_us - fleet.started_us) // MINUTE_US
    # The long ones of a thousand steps and more are few: each is as many lines.
    longest = max(20, len(fleet.hosts) * minutes // 12)
    for number, falls_back in enumerate((None, True, False, None, True, False)):
        share = (1, 8, 12, 20, 12, 15)[number]
        iterations = max(7, longest // share + dice.randrange(30))
        dice.choice(able).unmap(iterations, falls_back=falls_back)
