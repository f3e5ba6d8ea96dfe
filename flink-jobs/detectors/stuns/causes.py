"""Find the cause of a stun in the VM's log: in lines before, during and just after the stun.

Of all possible explanations the nearest wins. If two are equally near, or none is near enough, the
cause is unknown. The result is a pure function of the lines given.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.operations.asking import with_asker
from stunwatch.detectors.records import verbatim

_DETECTOR = detector("stuns")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_CREATE_US = _LIMITS["create_within_seconds"] * _SECOND
_QUIESCED_US = _LIMITS["quiesced_create_within_minutes"] * 60 * _SECOND
_OPERATION_US = _LIMITS["operation_within_minutes"] * 60 * _SECOND
_BEFORE_US = _LIMITS["evidence_before_seconds"] * _SECOND
_AFTER_US = _LIMITS["evidence_after_seconds"] * _SECOND
_HELPER_US = _LIMITS["helper_before_iteration_minutes"] * 60 * _SECOND
_SWITCHOVER_US = _LIMITS["switchover_within_seconds"] * _SECOND
_HOT_PLUG_US = _LIMITS["hot_plug_within_seconds"] * _SECOND
_DISKS_US = _LIMITS["disks_within_ms"] * 1000
_COPY_US = _LIMITS["copy_within_ms"] * 1000

# ESX creates these snapshots while it removes one.
_HELPER = re.compile(r"Consolidate Helper-? ?\d{0,9}")
_ADDRESS = re.compile(r"[0-9A-Fa-f.:]+")

CauseName = Literal[
    "snapshot_create",
    "snapshot_create_memory",
    "snapshot_remove",
    "vmotion",
    "storage_vmotion",
    "hot_add",
    "suspend_resume",
    "unknown",
]


class Reach(NamedTuple):
    """The distance from a stun, in microseconds, within which a line counts for its cause."""

    before_us: int
    after_us: int


_REACHES = {
    "take": Reach(_OPERATION_US, 0),
    "taken": Reach(_OPERATION_US, _AFTER_US),
    "taking": Reach(_BEFORE_US, _AFTER_US),
    "memory": Reach(_BEFORE_US, _AFTER_US),
    "consolidates": Reach(_OPERATION_US, _HELPER_US),
    "consolidated": Reach(_OPERATION_US, _AFTER_US),
    "migration": Reach(_OPERATION_US, 0),
    "migrated": Reach(_OPERATION_US, 0),
    "switchover": Reach(_OPERATION_US, _AFTER_US),
    "disks_move": Reach(_OPERATION_US, _AFTER_US),
    "hot_plug": Reach(_HOT_PLUG_US, 0),
    "resume": Reach(_BEFORE_US, _AFTER_US),
    "disk": Reach(_DISKS_US, _DISKS_US),
    "change_tracking": Reach(_DISKS_US, _DISKS_US),
}

LONGEST_REACH_US = max(reach.before_us for reach in _REACHES.values())
"""How long before a stun a line that explains it may be."""

_LONGEST_AFTER_US = max(reach.after_us for reach in _REACHES.values())


class CauseLine(NamedTuple):
    """A line that may explain a stun. Sorts by time, then offset."""

    at_us: int
    offset: int
    kind: str
    text: str
    says: tuple[str, ...] = ()
    op_id: str = ""

    @property
    def reach(self) -> Reach:
        """The distance from a stun within which the line counts."""
        return _REACHES[self.kind]

    @property
    def migration_id(self) -> str:
        """The ID of the migration in the line, as a decimal number; empty if it contains none."""
        return self.says[1] if self.says[:1] in (("planned",), ("opened",)) else ""


@dataclass(frozen=True)
class Cause:
    """The cause of a stun, as far as known. The fields are those of a stun."""

    cause: CauseName = "unknown"
    cause_detail: str = ""
    op_id: str = ""
    migration_id: str | None = None
    switchover_us: int | None = None
    is_quiesced: bool | None = None
    is_cbt: bool | None = None
    lines: tuple[CauseLine, ...] = ()
    """The lines that the cause is based on."""


# Parsing.


def read_cause(record: Mapping[str, Any]) -> CauseLine | None:
    """Parse a record. Return None if it says nothing about the cause of stuns."""
    message = record["message"]
    for pattern, tell in _TELLS:
        if found := pattern.search(message):
            told = tell(found)
            if told is None:
                return None
            kind, *says = told
            return CauseLine(
                record["event_time_us"],
                record.get("offset", -1),
                kind,
                verbatim(record),
                tuple(says),
                record.get("op_id", ""),
            )
    return None


Told = tuple[str, ...] | None
"""The kind of a line, and its values."""


def _take(found: re.Match[str]) -> Told:
    if _HELPER.fullmatch(found["name"]):
        return "consolidates", found["name"], "after"
    quiesced = re.search(r"\bquiesced=([01])\b", found["options"])
    return "take", found["name"], found["memory"], quiesced[1] if quiesced else ""


def _taken(found: re.Match[str]) -> Told:
    if _HELPER.fullmatch(found["name"]):
        return "consolidates", found["name"], "after"
    return "taken", found["name"]


def _consolidates(found: re.Match[str]) -> Told:
    # This line and a helper's also explain a stun that is over. Other lines explain later stuns
    # only.
    return "consolidates", "", "after" if found["again"] else ""


def _lazy_started(found: re.Match[str]) -> Told:
    # At the start of a restore all pages are done.
    return ("memory",) if int(found["done"]) < int(found["pages"]) else ("resume",)


def _lazy_done(found: re.Match[str]) -> Told:
    return ("memory",) if found["what"] == "save" else ("resume",)


def _checkpoint(found: re.Match[str]) -> Told:
    # Only the checkpoint of a snapshot has a name.
    return ("memory",) if found["what"] == "saveStatusWithName" else ("resume",)


def _disk(found: re.Match[str]) -> Told:
    return "disk", found["stem"], found["number"] or "", found["verb"]


def _migration(found: re.Match[str]) -> Told:
    source, destination = _address(found["source"]), _address(found["destination"])
    return "migration", "planned", _decimal(found["id"]), source, destination


def _migration_in_hex(found: re.Match[str]) -> Told:
    source, destination = _address(found["source"]), _address(found["destination"])
    return "migration", "planned", str(int(found["id"], 16)), source, destination


def _migration_opened(found: re.Match[str]) -> Told:
    return "switchover", "opened", _decimal(found["id"]), _address(found["source"]), ""


def _migration_state(found: re.Match[str]) -> Told:
    # State 0: no migration is in progress.
    return ("migrated",) if int(found["state"]) == 0 else ("switchover", "state")


def _address(text: str | None) -> str:
    """Return an IP address; empty for `<unknown>`."""
    return text if text and _ADDRESS.fullmatch(text) else ""


def _decimal(migration_id: str) -> str:
    """Return a migration ID as a decimal number. It is hexadecimal unless all are digits."""
    is_hex = re.fullmatch(r"\d{1,19}", migration_id) is None
    try:
        return str(int(migration_id, 16 if is_hex else 10))
    except ValueError:
        return ""


_TELLS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Told]], ...] = tuple(
    (_PATTERNS[name], tell)
    for name, tell in (
        ("disk", _disk),
        ("change_tracking", lambda _: ("change_tracking",)),
        ("take_started", _take),
        ("take_done", _taken),
        ("take_failed", lambda _: ("taken", "")),
        ("take_goes_on", lambda _: ("taking",)),
        ("lazy_snapshot", lambda _: ("memory",)),
        ("lazy_started", _lazy_started),
        ("lazy_done", _lazy_done),
        ("checkpoint_progress", _checkpoint),
        ("consolidated", lambda _: ("consolidated",)),
        ("consolidates", _consolidates),
        ("migration", _migration),
        ("migration_in_hex", _migration_in_hex),
        ("migration_requested", _migration),
        ("migration_opened", _migration_opened),
        ("migration_state", _migration_state),
        ("switchover_started", lambda _: ("switchover", "started")),
        ("switchover", lambda _: ("switchover", "stunned")),
        ("disks_move", lambda _: ("disks_move",)),
        ("memory_plugged", lambda found: ("hot_plug", f"memory {found[1]} to {found[2]}")),
        ("device_plugged", lambda found: ("hot_plug", f"{found['way']} {found['device']}")),
        ("device_added", lambda found: ("hot_plug", found.string[found.end() :])),
    )
)


# Deciding.


class Span(NamedTuple):
    """Start and end of a stun, in microseconds since 1970."""

    start_us: int
    end_us: int

    def distance(self, at_us: int) -> tuple[int, int]:
        """Return the distance of an instant from the stun, then from the stun's end."""
        outside = max(self.start_us - at_us, at_us - self.end_us, 0)
        return outside, abs(self.end_us - at_us)

    def nearest(self, lines: Iterable[CauseLine]) -> tuple[int, int]:
        """Return the distance of the nearest line."""
        return min(self.distance(line.at_us) for line in lines)


def bearing(lines: Sequence[CauseLine], stun: Span) -> list[CauseLine]:
    """Return those of the sorted lines that are near enough to a stun to count for its cause."""
    first = bisect_left(lines, stun.start_us - LONGEST_REACH_US, key=_at)
    last = bisect_right(lines, stun.end_us + _LONGEST_AFTER_US, key=_at)
    found = []
    for line in lines[first:last]:
        before_us, after_us = _REACHES[line.kind]
        if stun.start_us - before_us <= line.at_us <= stun.end_us + after_us:
            found.append(line)
    return found


@dataclass(frozen=True)
class _Claim:
    """An explanation. The lower rank wins, then the nearer one."""

    rank: int
    distance: tuple[int, int]
    told: Cause


# Ranks of claims: the operation encloses the stun, is near it, is only inferred, or still runs.
_ENCLOSES, _NEAR, _LOOKS_LIKE, _STILL_RUNS = range(4)


def cause_of(stun: Span, lines: Sequence[CauseLine]) -> Cause:
    """Return the cause that follows from the sorted lines, all of which count for the stun."""
    by_kind: dict[str, list[CauseLine]] = {}
    for line in lines:
        by_kind.setdefault(line.kind, []).append(line)
    migrations = list(_migrations(stun, by_kind))
    if any(claim.told.cause == "hot_add" for claim in migrations):
        # The same-host migration of a hot add contains more than the request.
        by_kind.pop("hot_plug")
    claims = [
        *migrations,
        *_takes(stun, by_kind),
        *_consolidations(stun, by_kind),
        *_points(stun, by_kind),
    ]
    tracking = by_kind.get("change_tracking", [])
    told = _best(claims)
    op_id = next((line.op_id for line in told.lines if line.op_id), "")
    return Cause(
        cause=told.cause,
        cause_detail=with_asker(told.cause_detail, op_id) if told.lines else "",
        op_id=op_id,
        migration_id=told.migration_id,
        switchover_us=told.switchover_us,
        is_quiesced=told.is_quiesced,
        is_cbt=True if tracking else None,
        lines=(*told.lines, *tracking[:1]),
    )


def _best(claims: Sequence[_Claim]) -> Cause:
    if not claims:
        return Cause()
    nearest = min((claim.rank, claim.distance) for claim in claims)
    best = [claim.told for claim in claims if (claim.rank, claim.distance) == nearest]
    return best[0] if len({told.cause for told in best}) == 1 else Cause()


@dataclass
class _Take:
    """A snapshot creation, from its first line to its last."""

    start: CauseLine
    end: CauseLine | None = None
    next_us: int | None = None
    """When the next creation starts: this one is over then, even if no line reports its end."""
    within: list[CauseLine] = field(default_factory=list)

    @property
    def ends_us(self) -> int | None:
        """The time at which it is over; None if unknown."""
        return self.end.at_us if self.end else self.next_us


def _takes(stun: Span, by_kind: Mapping[str, list[CauseLine]]) -> Iterator[_Claim]:
    """Yield claims of snapshots in creation."""
    takes, alone = _paired(by_kind.get("take", []), by_kind.get("taken", []))
    over_us = max((line.at_us for line in alone if line.at_us < stun.start_us), default=0)
    hints = [*by_kind.get("taking", []), *by_kind.get("memory", []), *alone]
    hints = [line for line in hints if line.at_us > over_us]
    for take in takes:
        ends_us = take.ends_us
        hints = [
            line
            for line in hints
            if not (take.start.at_us <= line.at_us and (ends_us is None or line.at_us <= ends_us))
        ]
        if take.start.at_us > stun.end_us or (ends_us is not None and ends_us < stun.start_us):
            continue
        name, memory, quiesced = take.start.says
        is_memory = memory != "0"
        known = [take.start, *([take.end] if take.end else [])]
        age_us = stun.start_us - take.start.at_us
        if take.end and take.end.at_us >= stun.end_us:
            rank = _ENCLOSES
        elif age_us <= (_CREATE_US if quiesced == "0" else _QUIESCED_US):
            rank = _NEAR
        elif is_memory:
            rank = _STILL_RUNS
        else:
            continue
        told = Cause(
            cause="snapshot_create_memory" if is_memory else "snapshot_create",
            cause_detail=name,
            is_quiesced=quiesced == "1" if quiesced else None,
            lines=tuple(known),
        )
        yield _Claim(rank, stun.nearest(known), told)
    # The remaining lines belong to a snapshot whose start is unknown.
    if hints:
        names = [line.says[0] for line in hints if line.kind == "taken"]
        told = Cause(
            cause="snapshot_create_memory"
            if any(line.kind == "memory" for line in hints)
            else "snapshot_create",
            cause_detail=names[0] if names else "",
            lines=tuple(sorted(hints)),
        )
        yield _Claim(_NEAR, stun.nearest(hints), told)


def _paired(
    starts: Sequence[CauseLine], ends: Sequence[CauseLine]
) -> tuple[list[_Take], list[CauseLine]]:
    """Return the creations, each from start to end, and the ends without a start."""
    takes: list[_Take] = []
    alone: list[CauseLine] = []
    for line in sorted([*starts, *ends]):
        latest = takes[-1] if takes else None
        if line.kind == "take":
            if latest and _is_copy(line, latest.start):
                continue
            if latest and latest.end is None:
                latest.next_us = line.at_us
            takes.append(_Take(line))
        elif latest and latest.end is None and line.says[0] in ("", latest.start.says[0]):
            latest.end = line
        elif line.says[0] and not (latest and latest.end and _is_copy(line, latest.end)):
            alone.append(line)
    return takes, alone


def _is_copy(line: CauseLine, earlier: CauseLine) -> bool:
    """True if a line repeats another soon after: it arrived by file and by syslog."""
    return line.says == earlier.says and line.at_us - earlier.at_us <= _COPY_US


def _consolidations(stun: Span, by_kind: Mapping[str, list[CauseLine]]) -> Iterator[_Claim]:
    """Yield claims of snapshots in removal."""
    runs, ends = by_kind.get("consolidates", []), by_kind.get("consolidated", [])
    disks = by_kind.get("disk", [])
    before = [line for line in runs if line.at_us <= stun.end_us]
    after = [line for line in runs if line.at_us > stun.end_us and line.says[1]]
    ended_us = max((line.at_us for line in ends if line.at_us < stun.start_us), default=None)
    told: list[CauseLine] = []
    if before and (ended_us is None or before[-1].at_us > ended_us):
        told.append(before[-1])
    told += [line for line in ends if line.at_us >= stun.start_us][:1]
    within_us = _HELPER_US if _is_helper_made(disks) else _AFTER_US
    told += [line for line in after if line.at_us <= stun.end_us + within_us][:1]
    if told:
        is_near = any(stun.distance(line.at_us)[0] <= _QUIESCED_US for line in told)
        details = [line.says[0] for line in told if line.says and line.says[0]]
        yield _Claim(
            _NEAR if is_near else _STILL_RUNS,
            stun.nearest(told),
            Cause(
                cause="snapshot_remove",
                cause_detail=details[0] if details else "",
                lines=tuple(told),
            ),
        )
    if removed := _removed_disk(disks):
        name, shown = removed
        told_by_disks = Cause(cause="snapshot_remove", cause_detail=name, lines=tuple(shown))
        yield _Claim(_LOOKS_LIKE, stun.nearest(shown), told_by_disks)


def _by_link(disks: Sequence[CauseLine]) -> dict[str, dict[int, list[CauseLine]]]:
    """Return the lines of each disk by link number: 0 is the base, the others are deltas."""
    links: dict[str, dict[int, list[CauseLine]]] = {}
    for line in disks:
        stem, number, _ = line.says
        links.setdefault(stem, {}).setdefault(int(number or 0), []).append(line)
    return links


def _is_new(lines: Sequence[CauseLine]) -> bool:
    """True if a link is opened that was not in use before."""
    return lines[0].says[2] != "closed"


def _is_helper_made(disks: Sequence[CauseLine]) -> bool:
    """True if a new delta is put on top of the links in use."""
    for links in _by_link(disks).values():
        top = max(links)
        below = [lines for number, lines in links.items() if number < top]
        if top and _is_new(links[top]) and any(not _is_new(lines) for lines in below):
            return True
    return False


def _removed_disk(disks: Sequence[CauseLine]) -> tuple[str, list[CauseLine]] | None:
    """Return the delta that is closed for good next to a link below it, and their lines."""
    for stem, links in sorted(_by_link(disks).items()):
        deltas = [number for number in sorted(links) if number]
        # A delta that was not in use before belongs to a new snapshot.
        if any(_is_new(links[number]) for number in deltas):
            continue
        for number in reversed(deltas):
            below = [other for other in links if other < number]
            if below and links[number][-1].says[2] == "closed":
                shown = sorted([*links[number], *links[max(below)]])
                return f"{stem}-{number:06d}", shown
    return None


def _migrations(stun: Span, by_kind: Mapping[str, list[CauseLine]]) -> Iterator[_Claim]:
    """Yield claims of vMotions, and of operations that use the same mechanism on one host."""
    first_us = stun.start_us - _SWITCHOVER_US
    steps = by_kind.get("switchover", [])
    overs_us = [
        # The source may finish a migration just before the VM runs on the destination.
        *(
            line.at_us
            for line in by_kind.get("migrated", [])
            if line.at_us < stun.start_us - _AFTER_US
        ),
        *(line.at_us for line in steps if line.at_us < first_us and line.says != ("state",)),
    ]
    over_us = max(overs_us, default=0)
    plans = [line for line in by_kind.get("migration", []) if line.at_us > over_us]
    steps = [line for line in steps if line.at_us > over_us and line.at_us >= first_us]
    moves = [line for line in by_kind.get("disks_move", []) if line.at_us > over_us]
    plugs = by_kind.get("hot_plug", [])
    near = [*steps, *(line for line in moves if stun.distance(line.at_us)[0] <= _BEFORE_US)]
    near = near or [line for line in plans if line.at_us >= first_us]
    if not near:
        return
    opened = [line for line in steps if line.says[0] == "opened"]
    migration_id = max([*plans, *opened]).migration_id if plans or opened else ""
    mine = [line for line in sorted([*plans, *opened]) if line.migration_id == migration_id]
    source = max((line.says[2] for line in mine), default="")
    destination = max((line.says[3] for line in mine), default="")
    started = [line for line in steps if line.says[0] == "started" and line.at_us <= stun.end_us]
    deciding: list[CauseLine]
    cause: CauseName
    detail = ""
    if source and destination and source != destination:
        cause, detail, deciding = "vmotion", f"{source} to {destination}", mine[:1]
    elif plugs:
        cause, detail, deciding = "hot_add", plugs[-1].says[0], plugs[-1:]
    elif moves:
        cause, deciding = "storage_vmotion", moves[-1:]
    elif source and source == destination:
        cause, detail, deciding = "suspend_resume", f"on {source}", mine[:1]
    elif source and migration_id:
        cause, detail, deciding = "vmotion", f"from {source}", opened[-1:]
    else:
        cause, deciding = "unknown", []
    yield _Claim(
        _NEAR,
        stun.nearest(near),
        Cause(
            cause=cause,
            cause_detail=detail,
            migration_id=migration_id or None,
            switchover_us=stun.end_us - started[-1].at_us if started else None,
            lines=tuple(dict.fromkeys([*deciding, *started[-1:], *opened[-1:]])),
        ),
    )


def _points(stun: Span, by_kind: Mapping[str, list[CauseLine]]) -> Iterator[_Claim]:
    """Yield claims of lines that explain a stun by themselves."""
    causes: tuple[tuple[str, CauseName], ...] = (
        ("hot_plug", "hot_add"),
        ("resume", "suspend_resume"),
    )
    for kind, cause in causes:
        for line in by_kind.get(kind, []):
            detail = line.says[0] if line.says else ""
            told = Cause(cause=cause, cause_detail=detail, lines=(line,))
            yield _Claim(_NEAR, stun.distance(line.at_us), told)


def _at(line: CauseLine) -> int:
    return line.at_us
