"""Events of VMs, written to their logs: snapshots, migrations, hot adds, stuns without a cause.

One `Machine` generates the night of one VM. Each method for an event writes its lines, adds to the
truth what can be known from them, and returns the time at which it ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stunwatch.simulation import operations
from stunwatch.simulation.fleet import MINUTE_US, SECOND_US, Fleet, Host, VirtualMachine
from stunwatch.simulation.log_writers import MS, LogWriters, cpu
from stunwatch.simulation.operations import NO_OPERATION
from stunwatch.simulation.truth import SnapshotOperation, Stun, Truth, UnsafeStep, text

KIB = 1024
MIB = 1024 * KIB

# Snapshot names of backup products and of people; some are hostile on purpose.
SNAPSHOT_NAMES = (
    "VEEAM BACKUP TEMPORARY SNAPSHOT",
    "nightly-{n}",
    "before patch {n}",
    "smvi_{n}",
    "vor Änderung {n}",
    "快照 {n}",
    "o'neill's copy {n}",
    'the "good" one {n}',
    "x', deviceState=1, lazy=1, quiesced=1 {n}",
    "Checkpoint_Unstun: vm stopped for {n}00000 us",
    "Done with snapshot 'nightly-{n}': 7",
)
_USUAL_NAMES = 4
_CREATE_TASK = "vim.VirtualMachine.createSnapshot"
HELPER_STUN_MS = 180
"""The median duration of the stuns between the passes of a consolidation."""

Inside = Sequence[tuple[str, str]]
"""Lines during a stun: (thread, message), from its start to its end."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A period in which an array is slow or away."""

    array: str
    started_us: int
    ended_us: int


class Machine:
    """Generates the events of one VM."""

    def __init__(
        self,
        fleet: Fleet,
        log_writers: LogWriters,
        truth: Truth,
        vm: VirtualMachine,
        troubles: Sequence[Trouble],
    ) -> None:
        self.fleet = fleet
        self.log_writers = log_writers
        self.truth = truth
        self.vm = vm
        self.era = vm.host.era
        self.log_writer = log_writers.of_vm(vm)
        self.rng: random.Random = fleet.rng("vm", vm.number)
        self.troubles = [each for each in troubles if each.array == vm.datastore.array.name]
        self.is_new = self.era.name in {"esxi60", "esxi65", "esxi70", "esxi80"}
        self._has_op_ids = self.era.has_column or vm.host.has_named_column
        self._op_dice: random.Random = fleet.rng("operations", vm.number)
        self._operation = NO_OPERATION
        """The current operation of a client."""

    # == Helpers

    def line(
        self,
        time_us: int,
        message: str,
        thread: str = "vmx",
        *,
        is_warning: bool = False,
        matters: bool = False,
    ) -> None:
        """Write a line of the VM's log. An operation's first line has its ID, others may."""
        op_id = self._operation.op_id
        if op_id and not matters and self._op_dice.random() < 0.5:
            op_id = ""
        if not thread.startswith(("vmx", "vcpu-")):
            op_id = ""
        self.log_writer.write(
            time_us, message, thread, is_warning=is_warning, matters=matters, op_id=op_id
        )

    def is_troubled(self, time_us: int) -> bool:
        """Return True if the VM's array has a problem at this time."""
        return any(each.started_us <= time_us < each.ended_us for each in self.troubles)

    def seconds(self, least: float, most: float) -> int:
        """Return a random duration in microseconds, given limits in seconds."""
        return int(self.rng.uniform(least, most) * SECOND_US)

    def milliseconds(self, least: float, most: float) -> int:
        """Return a random duration in microseconds, given limits in milliseconds."""
        return int(self.rng.uniform(least, most) * MS)

    def length(self, median_ms: float, time_us: int) -> int:
        """Return a stun's microseconds: mostly short, few long; minutes while the array is away."""
        drawn = self.rng.lognormvariate(0, 0.8) * median_ms * MS
        if self.is_troubled(time_us):
            drawn *= self.rng.uniform(15, 60)
        return max(4_000, min(int(drawn) + self.rng.randrange(MS), 250 * SECOND_US))

    def disk(self, number: int, delta: int | None = None) -> str:
        """Return the path of a disk's data file: the base disk or a delta."""
        name = f"{self.vm.folder}/{self.vm.name}{f'_{number}' if number else ''}"
        if delta is None:
            return f"{name}-flat.vmdk"
        kind = "sesparse" if self.era.name in {"esxi65", "esxi70", "esxi80"} else "delta"
        return f"{name}-{delta:06}-{kind}.vmdk"

    def descriptor(self, number: int, delta: int | None = None) -> str:
        """Return the path of the text file that describes a disk."""
        name = f"{self.vm.folder}/{self.vm.name}{f'_{number}' if number else ''}"
        return f"{name}.vmdk" if delta is None else f"{name}-{delta:06}.vmdk"

    def disklib(self, part: str, said: str) -> str:
        """Return a disk library message. The position of the colon depends on the release."""
        width = {"esx35": 0, "esx41": 5, "esxi50": 0}.get(self.era.name, 5)
        return f"DISKLIB-{part:{width}} : {said}"

    def closed(self, path: str) -> str:
        """Return the message that a data file was closed."""
        return self.disklib("VMFS", f'"{path}" : closed.')

    def opened(self, path: str, size: int) -> str:
        """Return the message that a data file was opened."""
        endings = {"-flat.vmdk": 3, "-delta.vmdk": 8, "-sesparse.vmdk": 19}
        kind = next(kind for ending, kind in endings.items() if path.endswith(ending))
        flags = self.rng.choice((8, 10, 1041, 524_309))
        return self.disklib(
            "VMFS", f'"{path}" : open successful ({flags}) size = {size}, hd = 0. Type {kind}'
        )

    def all_closed(self, delta: int | None) -> list[tuple[str, str]]:
        """Return the messages about the VM's disks at the start of a stun."""
        quote = "'" if self.era.name == "esxi80" else ""
        lines = [("vcpu-0", "Closing all the disks of the VM.")]
        for number in range(self.vm.disks):
            handle = 8192 + self.rng.randrange(900)
            lines += [
                ("vcpu-0", f"Closing disk {quote}scsi0:{number}{quote}"),
                ("vcpu-0", f"Destroying virtual dev for scsi0:{number} vscsi={handle}"),
                ("vcpu-0", self.closed(self.disk(number, delta))),
            ]
            if delta is not None:
                lines.append(("vcpu-0", self.closed(self.disk(number))))
        return lines

    def all_opened(self, delta: int | None, size: int) -> list[tuple[str, str]]:
        """Return the messages about the VM's disks at the end of a stun."""
        lines = []
        for number in range(self.vm.disks):
            if self.vm.is_cbt:
                node = f"/vmfs/devices/cbt/{self.rng.getrandbits(24):x}-cbt"
                lines.append(("vcpu-0", self.disklib("CBT", f"Opening cbt node {node}")))
            lines.append(("vcpu-0", self.opened(self.disk(number, delta), size)))
            if delta is not None:
                lines.append(("vcpu-0", self.opened(self.disk(number), 42_949_672_960)))
            if self.vm.is_cbt:
                lines.append(("vcpu-0", self.disklib("LIB", "Resuming change tracking.")))
        return lines

    # == Stuns

    def stun(
        self,
        stopped_us: int,
        duration_us: int,
        cause: str,
        why: str,
        inside: Inside = (),
        migration_id: str | None = None,
        known_as: str | None = None,
        is_unstun_lost: bool = False,
    ) -> int:
        """Stun the VM; return the time of the line that ends it.

        `known_as` is the cause that can be known from the log, if evidence is missing.
        `is_unstun_lost`: only the second of ESXi 8's two lines was written.
        """
        ended_us = -(-(stopped_us + duration_us) // MS) * MS
        stopped_us = -(-(ended_us - duration_us) // MS) * MS
        is_told = self.era.is_yearless or self.era.name in {"esxi50", "esxi55"}
        if is_told:
            self._modes_before(stopped_us)
        for number, (thread, message) in enumerate(inside, 1):
            at = stopped_us + (ended_us - stopped_us) * number // (len(inside) + 1)
            self.line(at, message, thread)
        if is_told:
            self.line(ended_us, "CPT current = 2, requesting 6", "vcpu-0")
        measured_by = "unstun"
        if self.vm.has_modes_only:
            measured_by = "cpt_mode"
            duration_us = ended_us - stopped_us
        elif not is_unstun_lost:
            self.line(
                ended_us,
                f"Checkpoint_Unstun: vm stopped for {duration_us} us",
                "vcpu-0",
                matters=True,
            )
        if is_told:
            self.line(ended_us, "Done Sync monModules(6).", "vcpu-1")
            self.line(ended_us, "Done Sync monModules(6).", "vcpu-0")
            self.line(ended_us, "CPT: monitor ACKing mode 6", "vcpu-0")
            self.line(ended_us + self.milliseconds(2, 30), "CPT current = 6, requesting 0")
        told_us = ended_us
        if self.era.name == "esxi80":
            later_us = self.rng.randrange(26_000, 31_000)
            second_us = (ended_us + self.milliseconds(28, 33)) // MS * MS
            self.line(
                second_us,
                f"CPT: vm was stunned for {duration_us + later_us} us",
                "vcpu-0",
                matters=True,
            )
            if is_unstun_lost:
                told_us, duration_us = second_us, duration_us + later_us
        self._true(told_us, duration_us, measured_by, known_as or cause, migration_id, why)
        return ended_us

    def _modes_before(self, stopped_us: int) -> None:
        """Write the state machine of a checkpoint, up to mode 2."""
        matters = self.vm.has_modes_only
        before_us = stopped_us - self.milliseconds(20, 180)
        self.line(before_us, "CPT current = 0, requesting 1")
        self.line(before_us, "Done Sync monModules(1).", "vcpu-0")
        self.line(before_us, "CPT: monitor ACKing mode 1", "vcpu-0")
        self.line(stopped_us, "CPT current = 1, requesting 2", matters=matters)
        self.line(stopped_us, "CPT: monitor ACKing mode 2", "vcpu-0", matters=matters)
        self.line(stopped_us + MS, "Done Sync monModules(2).", "vcpu-0")

    def _true(
        self,
        ended_us: int,
        duration_us: int,
        measured_by: str,
        cause: str,
        migration_id: str | None,
        why: str,
    ) -> None:
        if not self.vm.is_shipped:
            return
        is_known = cause != "unknown"
        self.truth.stuns.append(
            Stun(
                self.vm.host.name,
                self.vm.name,
                self.vm.shown_datastore,
                text(ended_us),
                duration_us,
                measured_by,
                cause,
                migration_id,
                why,
                self._operation.op_id if is_known else None,
                self._operation.asked_by if is_known else None,
            )
        )

    def _asked(self, time_us: int, task: str) -> None:
        """Start an operation of a client. hostd logs the task if it has a user."""
        self._operation = operations.draw(self._op_dice) if self._has_op_ids else NO_OPERATION
        if self._operation.user:
            sub = f"Vimsvc.TaskManager opID={self._operation.op_id} user={self._operation.user}"
            self.log_writers.of(self.vm.host, "hostd").write(
                time_us - self._op_dice.randrange(20, 300) * MS,
                f"Task Created : haTask-{self.vm.number}-{task}-{self._op_dice.randrange(9999)}",
                sub,
            )

    def operation(
        self, started_us: int, kind: str, name: str | None, why: str
    ) -> SnapshotOperation:
        """Add a snapshot operation to the truth. It is open until `end` is called."""
        self._asked(started_us, "vim.vm.Snapshot.remove" if kind == "remove" else _CREATE_TASK)
        made = SnapshotOperation(
            self.vm.host.name,
            self.vm.name,
            self.vm.shown_datastore,
            kind,
            name,
            text(started_us // MS * MS),
            None,
            "open",
            why=why,
            op_id=self._operation.op_id,
        )
        if self.vm.is_shipped:
            self.truth.snapshot_operations.append(made)
        return made

    def _unsafe(self, step: str, why: str) -> None:
        """Add a next step that would harm this VM."""
        unsafe = UnsafeStep("", self.vm.name, "", step, why)
        if unsafe not in self.truth.unsafe_steps:
            self.truth.unsafe_steps.append(unsafe)

    def end(self, operation: SnapshotOperation, time_us: int, outcome: str) -> None:
        """Record the result in the last line of an operation."""
        operation.ended_at = text(time_us // MS * MS)
        operation.outcome = outcome
        self._operation = NO_OPERATION

    # == Snapshots

    def _start(self, time_us: int, name: str, *, has_memory: bool, is_quiesced: bool) -> None:
        """Write the line that starts the creation of a snapshot."""
        memory, quiesced = int(has_memory), int(is_quiesced)
        address = f"{self.rng.getrandbits(28):X}"
        if self.era.name == "esx35":
            form = (
                f"powerState=0, deviceState={memory}, createAuxDeltaDisks=0, logging=0,"
                f" cb={address}, cbData={self.rng.getrandbits(32):X}"
            )
        elif self.era.name in {"esx41", "esxi50", "esxi55"}:
            form = (
                f"deviceState={memory}, lazy={memory}, logging=0, quiesced={quiesced},"
                f" forceNative=0, tryNative=1, sibling=0 saveAllocMaps=0, cb={address},"
                f" cbData={self.rng.getrandbits(32):X}"
            )
        else:
            form = (
                f"deviceState={memory}, lazy={memory}, quiesced={quiesced}, forceNative=0,"
                f" tryNative={1 - memory}, saveAllocMaps={int(self.vm.is_cbt)}"
            )
        self.line(time_us, f"SnapshotVMX_TakeSnapshot start: '{name}', {form}", matters=True)

    def name(self) -> str:
        """Return a snapshot's name, mostly a common one."""
        number = self.rng.randrange(10, 9999)
        usual = SNAPSHOT_NAMES[: _USUAL_NAMES if self.rng.random() < 0.8 else None]
        return self.rng.choice(usual).format(n=number)

    def _children(self, time_us: int, delta: int) -> None:
        for number in range(self.vm.disks):
            child = self.descriptor(number, delta)
            self.line(
                time_us + number * 3 * MS,
                self.disklib(
                    "LIB_CREATE" if self.is_new else "LIB",
                    f'CREATE CHILD: "{child}" -- vmfsSparse cowGran=1 allocType=0',
                ),
            )

    def create(self, time_us: int, *, has_memory: bool = False, is_open: bool = False) -> int:
        """Create a snapshot. From ESX 4 on, memory is saved lazily, after the stun."""
        vm, name = self.vm, self.name()
        is_quiesced = vm.is_quiesced and not has_memory
        kind = "create_memory" if has_memory else "create"
        made = self.operation(time_us, kind, name, f"snapshot {name!r}")
        self._start(time_us, name, has_memory=has_memory, is_quiesced=is_quiesced)
        at = time_us + (self.seconds(2, 20) if is_quiesced else self.milliseconds(80, 700))
        before, vm.delta = vm.delta or None, vm.delta + 1
        self._children(at, vm.delta)
        at += self.milliseconds(20, 200)
        if not self.era.is_yearless:
            self.line(
                at,
                "SNAPSHOT: SnapshotPrepareTakeDoneCB: Prepare phase complete"
                " (The operation completed successfully).",
            )
            self.line(
                at + self.milliseconds(3, 90),
                "SnapshotVMXTakeSnapshotWork: Transition to mode 0.",
                "vcpu-0",
            )
        inside = self.all_closed(before) + self.all_opened(vm.delta, 24_576)
        is_lazy = has_memory and self.era.name != "esx35"
        begun_us = 0
        stopped_us = at + self.milliseconds(100, 300)
        duration_us = self.length(900 if has_memory else 250, stopped_us)
        if has_memory and not is_lazy:
            # The memory is written during the stun.
            duration_us += self.seconds(8, 70)
            steps = [("vmx", f"Progress {part}% (none)") for part in range(0, 101, 4)]
            inside = [*inside[: len(inside) // 2], *steps, *inside[len(inside) // 2 :]]
        ended_us = self.stun(
            stopped_us,
            duration_us,
            "snapshot_create_memory" if has_memory else "snapshot_create",
            made.why,
            inside,
        )
        vm.snapshot_id += 1
        at = ended_us + self.milliseconds(3, 400)
        if is_lazy:
            begun_us = (ended_us - self.milliseconds(1, 3)) // MS * MS
            at = self._lazy(begun_us, made, is_open=is_open)
        if is_open:
            return self.fleet.ended_us
        if not self.era.is_yearless:
            self.line(at, "SnapshotVMXTakeSnapshotWork: Transition to mode 1.")
        self.line(at, self._done(name), matters=True)
        self.end(made, at, "ok")
        return at

    def create_thinly(self, time_us: int) -> int:
        """Create a snapshot from which little more than the stun was kept."""
        name = self.name()
        made = self.operation(time_us, "create", name, f"snapshot {name!r}")
        self._start(time_us, name, has_memory=False, is_quiesced=self.vm.is_quiesced)
        stopped_us = time_us + self.milliseconds(300, 900)
        duration_us = self.length(250, stopped_us)
        ended_us = self.stun(stopped_us, duration_us, "snapshot_create", made.why)
        self.vm.snapshot_id += 1
        at = ended_us + self.milliseconds(3, 400)
        self.line(at, self._done(name), matters=True)
        self.end(made, at, "ok")
        return at

    def _done(self, name: str) -> str:
        if self.era.name == "esx35":
            return f"SnapshotVMX done with snapshot '{name}': {self.vm.snapshot_id}"
        return (
            f"SnapshotVMXTakeSnapshotComplete: Done with snapshot '{name}': {self.vm.snapshot_id}"
        )

    def _lazy(self, begun_us: int, made: SnapshotOperation, *, is_open: bool) -> int:
        """Save the memory while the VM runs. The operation ends with the line with "completed"."""
        pages = self.vm.memory_pages
        worker = (
            "Worker#0"
            if self.era.name in {"esx41", "esxi50", "esxi55"}
            else (f"worker-{self.vm.world}")
        )
        self.line(
            begun_us,
            f"MainMem: Begin lazy IO ({pages} pages, 0 done, 1 threads, bio = 0).",
            worker,
            matters=True,
        )
        made.pages = pages
        if is_open:
            return self.fleet.ended_us
        ended_us = begun_us + int(pages / self.rng.uniform(3_000, 14_000) * SECOND_US)
        ended_us = ended_us // MS * MS
        for part in range(5, 100, 5):
            self.line(begun_us + (ended_us - begun_us) * part // 100, f"Progress {part}% (none)")
        self.line(
            ended_us,
            f"MainMem: End lazy IO ({pages} done, sync = 0, error = 0).",
            worker,
            matters=True,
        )
        completed_us = (ended_us + self.milliseconds(10, 25)) // MS * MS
        suffix = " (1)" if self.is_new else ""
        self.line(
            completed_us,
            f"MainMem: Completed pending lazy checkpoint save{suffix}.",
            matters=True,
        )
        made.lazy_io_ms = (completed_us - begun_us) // MS
        return completed_us

    def create_fails(self, time_us: int) -> int:
        """Fail to quiesce the guest: no stun and no snapshot."""
        name = self.name()
        made = self.operation(time_us, "create", name, f"quiescing fails for {name!r}")
        self._start(time_us, name, has_memory=False, is_quiesced=True)
        at = time_us + self.seconds(20, 400)
        self.line(
            at,
            "SnapshotVMXTakeSnapshotComplete: Snapshot 0 failed:"
            " Failed to quiesce the virtual machine (31).",
            matters=True,
        )
        self.end(made, at, "failed")
        return at

    def remove(self, time_us: int, **how: bool) -> int:
        """Remove the newest snapshot in the way of the release."""
        if self.era.is_iterative:
            return self._remove_by_helpers(time_us, **how)
        return self._remove_in_one_pass(time_us, **how)

    def remove_thinly(self, time_us: int) -> int:
        """Remove a snapshot. Little more than the stun is kept in the log."""
        made = self._remove_starts(time_us, "consolidation in one pass")
        at = time_us + self.seconds(5, 60)
        ended_us = self.stun(at, self.length(350, at), "snapshot_remove", made.why)
        if self.era.is_iterative:
            made.iterations = 0
        return self._remove_ends(ended_us + self.milliseconds(20, 600), made)

    def _remove_starts(self, time_us: int, why: str) -> SnapshotOperation:
        made = self.operation(time_us, "remove", None, why)
        if not self.era.is_iterative:
            self._unsafe(
                r"\b(?:shut|turn)\b.*\b(?:down|off)\b|\bpower(?:ing)?.off\b",
                "from ESXi 6.0 a power-off cancels the consolidation and the VM may hang",
            )
        self.line(
            time_us,
            "SnapshotVMX_Consolidate: Starting online snapshot consolidate operation.",
            matters=True,
        )
        return made

    def _remove_ends(self, time_us: int, made: SnapshotOperation) -> int:
        if self.era.name in {"esxi70", "esxi80"}:
            said = "ConsolidateEnd: Snapshot consolidate complete: The operation completed"
            self.line(time_us, f"{said} successfully (0).", matters=True)
        else:
            self.line(
                time_us,
                "SnapshotVMXConsolidateOnlineCB: Done with consolidate",
                "vcpu-0",
                matters=True,
            )
        self.end(made, time_us, "ok")
        return time_us

    def _remove_in_one_pass(
        self, time_us: int, *, is_locked: bool = False, is_open: bool = False
    ) -> int:
        """Remove a snapshot as from ESXi 6 on: with a mirror driver and one stun at the end."""
        made = self._remove_starts(time_us, "consolidation in one pass")
        size = self.rng.randrange(64 * MIB, 6_000 * MIB) // 4096 * 4096
        delta = self.vm.delta
        at = time_us + self.milliseconds(300, 2500)
        if is_locked:
            return self._locked(at, made, delta)
        self.line(at, self.opened(self.disk(0, delta), size), "vmx")
        at += self.seconds(4, 30) + size * 1000 // (90 * 1024)
        if is_open:
            return self.fleet.ended_us
        self.vm.delta = 0
        inside = self.all_closed(delta) + self.all_opened(None, 42_949_672_960)
        ended_us = self.stun(at, self.length(350, at), "snapshot_remove", made.why, inside)
        return self._remove_ends(ended_us + self.milliseconds(20, 600), made)

    def _remove_by_helpers(
        self,
        time_us: int,
        *,
        is_diverging: bool = False,
        is_locked: bool = False,
        is_open: bool = False,
    ) -> int:
        """Remove a snapshot (up to ESXi 5.5): add helpers until the rest is small, or forced."""
        made = self._remove_starts(time_us, "consolidation by helper snapshots")
        delta = self.vm.delta
        size = self.rng.randrange(200 * MIB, 3_000 * MIB) // 4096 * 4096
        at = time_us + self.milliseconds(300, 1500)
        if is_locked:
            return self._locked(at, made, delta)
        sizes: list[int] = []
        passes = self.rng.randrange(4, 8) if is_diverging else self.rng.choice((1, 1, 2, 3))
        for number in range(passes):
            helper = delta + number + 1
            # The helper receives the guest's writes while the delta below it is copied.
            inside = [
                *self.all_closed(delta + number)[:4],
                *self.all_opened(helper, 24_576)[:3],
            ]
            at = self.stun(at, self.length(HELPER_STUN_MS, at), "snapshot_remove", made.why, inside)
            at += self.milliseconds(20, 90)
            self.line(at, self.opened(self.disk(0, delta + number), size), "vmx")
            at += self.seconds(5, 20) + size * 1000 // (60 * 1024)
            if is_open:
                return self.fleet.ended_us
            # The guest's writes during the pass are the size of the next helper.
            least, most = (1.02, 1.3) if is_diverging else (0.15, 0.5)
            size = int(size * self.rng.uniform(least, most)) // 4096 * 4096
            if number + 1 < passes:
                sizes.append(size)
                self.line(
                    at, "SnapshotVMXConsolidateOnlineCB: Another iteration is needed.", matters=True
                )
                at += self.milliseconds(5, 60)
        self.vm.delta = 0
        inside = self.all_closed(delta + passes) + self.all_opened(None, 42_949_672_960)
        longest = self.seconds(40, 200) if is_diverging else self.length(700, at)
        ended_us = self.stun(at, longest, "snapshot_remove", made.why, inside)
        made.iterations = passes - 1
        made.helper_sizes = sizes
        if len(sizes) > 1:
            made.is_converging = not is_diverging
        return self._remove_ends(ended_us + self.milliseconds(20, 600), made)

    def _locked(self, at: int, made: SnapshotOperation, delta: int) -> int:
        """Fail because a backup proxy still has the delta open."""
        path, reason = self.disk(0, delta), "Failed to lock the file"
        self._unsafe(
            r"\bdelete\b.*\b(?:disk|datastore|files)\b",
            "the backup proxy holds the VM's own disk: deleting it there deletes the base disk",
        )
        for number in range(5):
            self.line(
                at,
                f"AIOMGR: AIOMgr_OpenWithRetry: Descriptor file '{path}' locked (try {number})",
                "vcpu-0",
            )
            at += self.milliseconds(298, 312)
        descriptor = self.descriptor(0, delta)
        self.line(
            at,
            self.disklib(
                "VMFS", f'"{path}" : failed to open ({reason}): AIOMgr_Open failed. Type 8'
            ),
            "vcpu-0",
            matters=True,
        )
        self.line(
            at, self.disklib("LINK", f'"{descriptor}" : failed to open ({reason}).'), "vcpu-0"
        )
        self.line(
            at,
            f"DISK: Failed to open disk for consolidate '{descriptor}' : {reason} (16392) 5345",
            "vcpu-0",
            matters=True,
        )
        if self.era.name in {"esxi70", "esxi80"}:
            at += self.milliseconds(5, 50)
            said = f"ConsolidateEnd: Snapshot consolidate complete: {reason} (5)."
            self.line(at, said, matters=True)
        self.end(made, at, "failed")
        return at

    # == Migrations and similar operations

    def _migration(self, time_us: int) -> tuple[str, str]:
        """Return a migration's id in decimal, and in the form of the request line."""
        # The fleet's name is included so that ids are unique across the fleets of a pipeline.
        rng = self.fleet.rng("migration", self.fleet.name, self.vm.number, time_us)
        if self.era.name in {"esxi70", "esxi80"}:
            number = rng.getrandbits(62) | 1 << 61
            return str(number), f"{number:x}"
        number = time_us + rng.randrange(-900_000, 900_000)
        return str(number), f"{number:x}" if self.is_new else str(number)

    def vmotion(self, time_us: int, target: Host) -> int:
        """Move to another host. The VM stays in its datastore; the target starts a new log."""
        source = self.vm.host
        number, requested = self._migration(time_us)
        for each in (source, target):
            self._vmkernel_begins(each, time_us, number, source, target)
        self.line(
            time_us,
            f"MigrateVMXdrToSpec: type: 1 srcIp=<{source.address}> dstIp=<{target.address}>"
            f" mid={requested} priority=yes checksumMemory=no maxDowntime=0",
        )
        self.line(
            time_us,
            f"Received migrate 'to' request for mid id {number}, src ip <{source.address}>,"
            f" dst ip <{target.address}>.",
        )
        self._migrate_info(time_us, 1, source.address, target.address, number)
        self._states(time_us, (0, 1))
        at = time_us + self.milliseconds(300, 900)
        self._states(at, (1, 2))
        self._hostd_begins(time_us, source, number)
        stopped_us = at + self.seconds(4, 45)
        self._states(stopped_us, (2, 3))
        self.line(
            stopped_us,
            "Migrate: VM starting stun, waiting 100 seconds for go/no-go message.",
            matters=True,
        )
        self.line(
            stopped_us + self.milliseconds(5, 60), "Migrate: VM successfully stunned", "vcpu-0"
        )
        self._states(stopped_us + self.milliseconds(61, 90), (3, 4))
        began_us = stopped_us + self.milliseconds(95, 110)
        duration_us = max(70_000, self.length(300, stopped_us))
        # The source measures another duration.
        precopy_us = int(duration_us * self.rng.uniform(0.4, 0.95))
        born_us = began_us - self.milliseconds(30, 40)
        self._born(born_us)
        self.line(
            began_us,
            f"Migrate_Open: Restoring from <{source.address}> with migration id {number}",
            matters=True,
        )
        self._states(born_us, (0, 7), (7, 8), (8, 9))
        self._states(began_us, (9, 10))
        ended_us = self.stun(
            began_us, duration_us, "vmotion", f"vMotion to {target.label}", (), number
        )
        self._states(ended_us + self.milliseconds(2, 9), (10, 11), (11, 0))
        hostd_us = (ended_us + self.milliseconds(150, 900)) // MS * MS
        self._vmkernel_ends(source, target, stopped_us, ended_us, number)
        self._hostd_ends(source, hostd_us, number, precopy_us)
        return ended_us + SECOND_US

    def _born(self, time_us: int) -> None:
        """Start a new vmx process, which starts a new vmware.log."""
        self.log_writer.breaks.append(time_us // MS * MS)
        self.line(
            time_us,
            f"Log for VMware ESX pid={self.vm.world + self.rng.randrange(1, 400)}"
            f" version={self.era.version} build=build-{self.era.build} option=Release",
        )

    def _states(self, time_us: int, *changes: tuple[int, int]) -> None:
        for before, after in changes:
            self.line(time_us, f"MigrateSetState: Transitioning from state {before} to {after}.")

    def _migrate_info(
        self, time_us: int, state: int, source: str, target: str, number: str
    ) -> None:
        self.line(
            time_us,
            f"MigrateSetInfo: state={state} srcIp=<{source}> dstIp=<{target}> mid={number}"
            f" uuid={self.rng.getrandbits(64):016x} priority=high",
            matters=True,
        )

    def _vmkernel_begins(
        self, host: Host, time_us: int, number: str, source: Host, target: Host
    ) -> None:
        side = "Source" if host is source else "Dest"
        world = self.vm.world if host is source else self.vm.world + 1500
        wid = self.vm.world + 1500 if host is source else 0
        at = time_us + self.milliseconds(40, 300)
        if host.era.name in {"esxi70", "esxi80"}:
            message = (
                f"Migrate: 314: vmotion: {side} vmmLeaderID = {world}, ts = {number},"
                f" srcIP = <{source.address}> dstIP = <{target.address}> Dest wid = {wid}"
                " using SHARED swap"
            )
        else:
            message = (
                f"Migrate: vm {world}: 3284: Setting VMOTION info: {side} ts = {number},"
                f" src ip = <{source.address}> dest ip = <{target.address}> Dest wid = {wid}"
                " using SHARED swap"
            )
        log_writer = self.log_writers.of(host, "vmkernel")
        log_writer.write(at, message, cpu(self.rng, host, world))
        letter = "S" if host is source else "D"
        log_writer.write(
            at + 2 * MS,
            f"VMotion: 2734: {number} {letter}: Set ip address"
            f" '{host.address}' worldlet affinity to {'send' if letter == 'S' else 'recv'}"
            f" World ID {world + 7}",
            cpu(self.rng, host, world),
        )

    def _vmkernel_ends(
        self, source: Host, target: Host, stopped_us: int, ended_us: int, number: str
    ) -> None:
        pages = self.rng.randrange(200, 9_000)
        rate = self.rng.uniform(90, 900)
        log_writer = self.log_writers.of(source, "vmkernel")
        thread = cpu(self.rng, source, self.vm.world)
        log_writer.write(
            stopped_us - self.milliseconds(1, 20),
            f"VMotion: 4650: {number} S: Stopping pre-copy: only {pages} pages left to send, which"
            " can be sent within the switchover time goal of 0.500 seconds"
            f" (network bandwidth ~{rate:.3f} MB/s, {self.rng.randrange(90, 99_999)}% t2d)",
            thread,
        )
        log_writer.write(
            stopped_us + self.milliseconds(20, 60),
            f"VMotionSend: 4156: {number} S: Sent all modified pages to destination"
            f" (network bandwidth ~{rate:.3f} MB/s)",
            thread,
        )
        self.log_writers.of(target, "vmkernel").write(
            ended_us - self.milliseconds(1, 20),
            f"VMotionRecv: 3230: {number} D: DONE paging in",
            cpu(self.rng, target, self.vm.world + 1500),
        )

    def _hostd_begins(self, time_us: int, source: Host, number: str) -> None:
        log_writer = self.log_writers.of(source, "hostd")
        vmx = f"vm:{self.vm.folder}/{self.vm.name}.vmx"
        is_plain = "'" not in vmx and "[" not in vmx
        log_writer.write(
            time_us - self.milliseconds(5, 80),
            f"VMotionPrepare ({number}): Sending 'to' srcVmPath={self.vm.folder}",
            vmx if is_plain else "Vimsvc",
        )

    def _hostd_ends(self, source: Host, hostd_us: int, number: str, precopy_us: int) -> None:
        message = f"Set source task result precopyStunTime to {precopy_us}"
        log_writer = self.log_writers.of(source, "hostd")
        sub = f"VMotionSrc ({number})"
        if source.era.hostd in {"esxi6", "esxi8"}:
            sub = f"Vcsvc.VMotionSrc.{number}"
            message = f"[VMotionSrc ({number})] {message}"
        if self.era.name == "esx35":
            return  # hostd does not report this number yet
        log_writer.write(hostd_us, message, sub, matters=True)
        if not self.vm.is_shipped:
            self.truth.stuns.append(
                Stun(
                    source.name, self.vm.name, self.vm.datastore.name, text(hostd_us), precopy_us,
                    "hostd", "vmotion", number, "vMotion of a VM whose log is not shipped",
                )
            )  # fmt: skip

    def _switch_over(
        self, time_us: int, cause: str, why: str, inside: Inside, migration_id: str | None
    ) -> int:
        """Switch from one vmx to its successor on the same host, in the same log."""
        self.line(
            time_us,
            "Migrate: VM starting stun, waiting 100 seconds for go/no-go message.",
            matters=True,
        )
        began_us = time_us + self.milliseconds(40, 120)
        self.line(began_us, "Migrate: VM successfully stunned", "vcpu-0")
        stopped_us = began_us + self.milliseconds(5, 20)
        duration_us = self.length(450, time_us)
        ended_us = self.stun(stopped_us, duration_us, cause, why, inside, migration_id)
        self._operation = NO_OPERATION
        return ended_us + SECOND_US

    def hot_add(self, time_us: int) -> int:
        """Add memory while the VM runs."""
        self._asked(time_us, "vim.VirtualMachine.reconfigure")
        size = self.vm.memory_pages * 4 // KIB
        self.line(
            time_us,
            f"memoryHotplug: Change of memory size from {size} to {size * 2} was requested",
            matters=True,
        )
        left = [("vmx", "VMX has left the building: 0.")]
        return self._switch_over(
            time_us + self.milliseconds(250, 900), "hot_add", "memory is hot-added", left, None
        )

    def suspend_resume(self, time_us: int) -> int:
        """Suspend and resume quickly on the same host. No line shows the reason."""
        number, requested = self._migration(time_us)
        self.line(
            time_us,
            f"MigrateVMXdrToSpec: type: 3 srcIp=<127.0.0.1> dstIp=<127.0.0.1> mid={requested}"
            " priority=yes checksumMemory=no maxDowntime=0",
        )
        self._migrate_info(time_us, 1, "127.0.0.1", "127.0.0.1", number)
        self._states(time_us, (0, 1), (1, 2))
        return self._switch_over(
            time_us + self.seconds(1, 4), "suspend_resume", "fast suspend and resume", (), number
        )

    def storage_vmotion(self, time_us: int) -> int:
        """Move a disk to another datastore; the VM's folder and log stay."""
        vm = self.vm
        others = [each for each in vm.host.datastores if each is not vm.datastore]
        if not others:
            return time_us
        target = self.rng.choice(others)
        number, requested = self._migration(time_us)
        old = self.disk(0)
        new = f"/vmfs/volumes/{target.uuid}/{vm.name}/{vm.name}-flat.vmdk"
        self.line(
            time_us,
            f"MigrateVMXdrToSpec: type: 2 srcIp=<127.0.0.1> dstIp=<127.0.0.1> mid={requested}"
            " priority=yes checksumMemory=no maxDowntime=0",
        )
        self._migrate_info(time_us, 1, "127.0.0.1", "127.0.0.1", number)
        self._states(time_us, (0, 1))
        self.line(
            time_us + self.milliseconds(50, 90),
            "SVMotion_DiskGetCreateExtParams: not using a storage policy to create disk"
            f" '{new.replace('-flat', '')}'",
            matters=True,
        )
        self.line(time_us + self.milliseconds(100, 190), self.opened(new, 42_949_672_960))
        copied_us = time_us + self.seconds(40, 300)
        self.line(
            copied_us, "SVMotionMirroredModeThreadDiskCopy: Disk copy of scsi0:0 is complete."
        )
        self._states(copied_us, (1, 2))
        inside = [
            ("vcpu-0", "Closing all the disks of the VM."),
            ("vcpu-0", self.closed(old)),
            ("vcpu-0", self.opened(new, 42_949_672_960)),
        ]
        return self._switch_over(
            copied_us + self.milliseconds(100, 500), "storage_vmotion", "a disk moves", inside,
            number,
        )  # fmt: skip

    def unexplained(self, time_us: int) -> int:
        """Stun the VM without a line that shows the reason."""
        return self.stun(time_us, self.length(120, time_us), "unknown", "no evidence") + SECOND_US

    def throttled(self, time_us: int) -> int:
        """Throttle the log during a snapshot, so that the evidence of the cause is missing."""
        self.line(time_us, "<<< Log Throttled >>>")
        return self.stun(
            time_us + self.milliseconds(60, 90),
            self.length(250, time_us),
            "snapshot_create",
            "the log was throttled over its reason",
            known_as="unknown",
            is_unstun_lost=self.era.name == "esxi80" and self.rng.random() < 0.5,
        ) + SECOND_US  # fmt: skip

    def resumed(self, time_us: int) -> int:
        """Resume a VM from disk: lazy I/O without a snapshot or a stun."""
        pages = self.vm.memory_pages
        worker = f"worker-{self.vm.world}" if self.is_new else "Worker#0"
        self._born(time_us)
        begun = f"MainMem: Begin lazy IO ({pages} pages, {pages} done, 1 threads, bio = 0)."
        for after_ms, thread, message in (
            (200, "vmx", "Progress -1% (msg.checkpoint.restoreStatus)"),
            (900, "vmx", "Progress 50% (none)"),
            (2300, worker, begun),
            (2300, worker, f"MainMem: End lazy IO ({pages} done, sync = 0, error = 0)."),
            (2310, "vmx", "MainMem: Completed pending lazy checkpoint restore (1)."),
            (2340, "vcpu-0", "CPT: vmstart"),
        ):
            self.line(time_us + after_ms * MS, message, thread)
        return time_us + 3 * SECOND_US

    def quoted(self, time_us: int) -> int:
        """Write text of a guest that looks like evidence."""
        for message in (
            "Guest: note: Checkpoint_Unstun: vm stopped for 77777777 us",
            "GuestRpc: 'SnapshotVMX_TakeSnapshot start: 'x', deviceState=1' from guestinfo.note",
        ):
            self.line(time_us, message, "vcpu-0")
        return time_us


def tell(
    fleet: Fleet,
    log_writers: LogWriters,
    truth: Truth,
    troubles: Sequence[Trouble],
    progress: Callable[[], None] = lambda: None,
) -> None:
    """Generate the night of every VM."""
    for vm in fleet.vms:
        _night(Machine(fleet, log_writers, truth, vm, troubles))
        progress()


def _night(machine: Machine) -> None:
    """Run backups in their window, with other events in between, one after the other."""
    fleet, rng = machine.fleet, machine.rng
    span = fleet.ended_us - fleet.started_us
    last_us = fleet.ended_us - min(45 * MINUTE_US, span // 3)
    stories = _drawn(machine)
    before, after = stories[: len(stories) // 2], stories[len(stories) // 2 :]
    at = fleet.started_us + int(rng.uniform(0.01, 0.15) * span)
    at = _tell_all(machine, before, at, last_us)
    window_us = fleet.started_us + span // 6
    at = max(at, window_us) + machine.seconds(0, span / SECOND_US / 4)
    if rng.random() < 0.8:
        for _ in range(rng.choices((1, 2, 3), (60, 30, 10))[0]):
            at = _backup(machine, at, last_us)
    at = _tell_all(machine, after, at + MINUTE_US * rng.randrange(12, 30), last_us)
    if rng.random() < 0.06:
        _cut_off(machine, at)


def _drawn(machine: Machine) -> list[Callable[[int], int]]:
    """Return the VM's events besides backups, in random order."""
    fleet, rng, vm = machine.fleet, machine.rng, machine.vm
    is_yearless = vm.host.era.is_yearless
    others = [each for each in fleet.hosts if each is not vm.host and each.era is vm.host.era]
    able = others and not vm.has_modes_only and not vm.is_by_syslog
    chances: list[tuple[float, Callable[[int], int]]] = [
        (0.12, machine.unexplained),
        (0.22 if able else 0, lambda at: machine.vmotion(at, rng.choice(others))),
        (0.10, lambda at: machine.create(at, has_memory=True)),
        (0.05, machine.resumed),
        (0.08, machine.quoted),
        (0 if is_yearless else 0.10, machine.storage_vmotion),
        (0 if is_yearless else 0.10, machine.hot_add),
        (0 if is_yearless else 0.10, machine.suspend_resume),
        (0 if is_yearless else 0.04, machine.throttled),
        (0 if is_yearless else 0.04, machine.create_fails),
    ]
    stories = [story for chance, story in chances if rng.random() < chance]
    rng.shuffle(stories)
    return stories


def _cut_off(machine: Machine, at: int) -> None:
    """End the logs while an operation is running."""
    late_us = machine.fleet.ended_us - machine.seconds(40, 200)
    early_us = late_us - machine.seconds(300, 900)
    if at < early_us and machine.rng.random() < 0.5:
        machine.create(early_us)
        machine.remove(late_us, is_open=True)
    elif at < late_us and machine.era.name != "esx35":
        machine.create(late_us, has_memory=True, is_open=True)


def _tell_all(machine: Machine, stories: list[Callable[[int], int]], at: int, last_us: int) -> int:
    for story in stories:
        if at >= last_us:
            break
        at = story(at) + machine.seconds(700, 2000)
    return at


def _backup(machine: Machine, at: int, last_us: int) -> int:
    """Create a snapshot, wait for the copy of the disk, and remove the snapshot."""
    rng = machine.rng
    if at >= last_us:
        return at
    at = machine.create(at) + machine.seconds(120, 900)
    if at >= last_us:
        return at  # the snapshot stays
    drawn = rng.random()
    if drawn < 0.05:
        at = machine.remove(at, is_locked=True) + machine.seconds(60, 300)
    elif drawn < 0.10 and machine.era.is_iterative:
        return machine.remove(at, is_diverging=True) + machine.seconds(600, 1800)
    return machine.remove(at) + machine.seconds(600, 2400)
