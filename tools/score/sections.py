"""Compares each view with the simulator's truth. Every figure has a limit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tools.score.figures import Section, macro_f1, share
from tools.score.matching import (
    Matched,
    Row,
    label,
    match,
    microseconds,
    near,
    overlapping,
    same,
)

MS = 1000
SECOND_US = 1_000_000

EXACT_US = 10 * MS
"""Tolerance of times if timestamps have milliseconds."""
COARSE_US = 1_500 * MS
"""Tolerance of times if timestamps have whole seconds."""
PEAK_MS = 0.01
"""Tolerance of a peak: esxtop writes two decimals."""

_NEGATED = re.compile(r"\b(?:do not|don't|never|not|no|instead of|before)\b[^.;:]*$", re.IGNORECASE)


class Comparison:
    """Compares the rows of a fleet with its truth."""

    def __init__(self, true: Row, found: dict[str, list[Row]]) -> None:
        """`true` is truth.json. A view that is not in `found` counts as empty."""
        self.true = true
        self._found = found
        self._coarse = {label(host) for host in true["coarse_hosts"]}

    def sections(self) -> list[Section]:
        """Return all sections."""
        return [
            *self.stuns(),
            self.snapshots(),
            self.conflicts(),
            self.latency(),
            self.unmaps(),
            self.scsi_errors(),
            self.path_events(),
            self.quiet(),
            self.advice(),
        ]

    def rows(self, view: str) -> list[Row]:
        """Return the rows of a view."""
        return self._found.get(view, [])

    def tolerance_us(self, fact: Row) -> int:
        """Return the tolerance of times. A VM's own file has milliseconds in every release."""
        is_file_of_a_vm = bool(fact.get("vm") and fact["datastore"])
        is_coarse = label(fact["host"]) in self._coarse and not is_file_of_a_vm
        return COARSE_US if is_coarse else EXACT_US

    def stuns(self) -> tuple[Section, Section]:
        """Compare stuns to the microsecond, and their causes."""
        section, causes = Section("stuns"), Section("causes")

        def of(rows: Sequence[Row], is_by_hostd: bool) -> list[Row]:
            return [each for each in rows if (each["measured_by"] == "hostd") == is_by_hostd]

        true, found = self.true["stuns"], self.rows("stuns")
        matched = match(of(true, False), of(found, False), _vm, near("ended_at", self.tolerance_us))
        # If only hostd measured a stun, the migration identifies it.
        matched += match(of(true, True), of(found, True), lambda row: row["migration_id"], same)
        _found(section, matched)
        off = [(abs(fact["duration_us"] - row["duration_us"]), fact, row)
               for fact, row in matched.pairs]  # fmt: skip
        section.at_most("largest error, µs", max((each[0] for each in off), default=0))
        for error_us, fact, row in off:
            if error_us:
                section.mismatch("duration differs", error_us=error_us, truth=fact, row=_shown(row))
        _equal(section, matched.pairs, ["measured_by"])
        self._causes(causes, matched.pairs)
        return section, causes

    @staticmethod
    def _causes(section: Section, pairs: Sequence[tuple[Row, Row]]) -> None:
        wrong = 0
        for fact, row in pairs:
            section.confusion.setdefault(fact["cause"], Counter())[row["cause"]] += 1
            if fact["cause"] != row["cause"]:
                wrong += row["cause"] != "unknown"
                kind = f"{fact['cause']} taken for {row['cause']}"
                section.mismatch(kind, truth=fact, row=_shown(row))
        section.at_least("macro-F1", macro_f1(section.confusion))
        section.at_most("wrong, not unknown", share(wrong, len(pairs)) if pairs else 0)
        migrations = [each for each in pairs if each[0]["cause"] == "vmotion"]
        _equal(section, migrations, ["migration_id"])
        _equal(section, pairs, ["op_id"])
        asked = [each for each in pairs if each[0]["asked_by"]]
        right = 0
        for fact, row in asked:
            is_right = f"by {fact['asked_by']}" in row["cause_detail"]
            right += is_right
            if not is_right:
                section.mismatch("asked_by differs", truth=fact, row=_shown(row))
        section.at_least("asked_by right", share(right, len(asked)))

    def snapshots(self) -> Section:
        """Compare every operation, and every field that the log contains."""
        section = Section("snapshot operations")
        matched = match(
            self.true["snapshot_operations"],
            self.rows("snapshot_operations"),
            lambda row: (row["kind"], *_vm(row)),
            near("started_at", self.tolerance_us),
        )
        _found(section, matched)
        fields = ("name", "outcome", "iterations", "is_converging", "pages", "op_id")
        _equal(section, matched.pairs, fields)
        self._times(section, matched.pairs, ["ended_at"])
        self._lazy_io(section, matched.pairs)
        with_helpers = [each for each in matched.pairs if each[0]["iterations"] is not None]
        _equal(section, with_helpers, ["helper_sizes"])
        return section

    def _lazy_io(self, section: Section, pairs: Sequence[tuple[Row, Row]]) -> None:
        """Compare the duration of lazy saving, with the precision of its first and last line."""
        compared = [each for each in pairs if each[0]["lazy_io_ms"] is not None]
        right = 0
        for fact, row in compared:
            found_ms = row["lazy_io_ms"]
            off_ms = None if found_ms is None else abs(fact["lazy_io_ms"] - found_ms)
            is_right = off_ms is not None and off_ms * MS <= self.tolerance_us(fact)
            right += is_right
            if not is_right:
                _differs(section, "lazy_io_ms", fact, row, "lazy_io_ms")
        section.at_least("lazy_io_ms right", share(right, len(compared)))

    def conflicts(self) -> Section:
        """Compare count-downs step by step; other forms of conflicts by device and time."""
        section = Section("reservation conflicts")

        def of(rows: Sequence[Row], dialect: str) -> list[Row]:
            return [each for each in rows if each["dialect"] == dialect]

        true = self.true["reservation_conflicts"]
        found = [{**row, "device": _named(row)} for row in self.rows("reservation_conflicts")]
        matched = match(
            of(true, "sync_cr"),
            of(found, "sync_cr"),
            lambda row: (label(row["host"]), str(row["world_id"]), row["first_remaining"]),
            near("started_at", self.tolerance_us),
        )
        _found(section, matched, "count-down ")
        _equal(section, matched.pairs, ("last_remaining", "device"), "count-down ")
        all_pairs = matched.pairs
        for dialect in ("device_status", "long_reservation"):
            matched = match(
                of(true, dialect), of(found, dialect), _host_and_device, overlapping(COARSE_US)
            )
            _found(section, matched, f"{dialect} ")
            all_pairs = all_pairs + matched.pairs
        self._times(section, all_pairs, ["started_at", "ended_at"])
        _equal(section, all_pairs, ("outcome", "steps", "is_stuck", "is_expected"))
        return section

    def latency(self) -> Section:
        """Compare slow periods of devices by origin. Any other episode is a mismatch."""
        section = Section("latency")
        for origin in ("esxtop", "storage_rm", "vmkernel"):
            matched = match(
                [each for each in self.true["latency"] if each["origin"] == origin],
                [each for each in self.rows("latency_episodes") if each["origin"] == origin],
                lambda row: (*_host_and_device(row), row["metric"].removesuffix("_ms")),
                overlapping(COARSE_US),
            )
            _found(section, matched, f"{origin} ")
            # Storage I/O Control logs to syslog.log, which has whole seconds on the host's disk.
            least_us = COARSE_US if origin == "storage_rm" else EXACT_US
            names = ["started_at", "ended_at"]
            self._times(section, matched.pairs, names, f"{origin} ", least_us)
            off = [pair for pair in matched.pairs
                   if abs(pair[0]["peak_ms"] - pair[1]["peak_ms"]) > PEAK_MS]  # fmt: skip
            for fact, row in off:
                section.mismatch(f"{origin} peak differs", truth=fact, row=_shown(row))
            right = len(matched.pairs) - len(off)
            section.at_least(f"{origin} peak right", share(right, len(matched.pairs)))
            if origin != "vmkernel":
                _equal(section, matched.pairs, ["kind"], f"{origin} ")
        return section

    def unmaps(self) -> Section:
        """Compare UNMAP runs step by step."""
        section = Section("UNMAP runs")
        matched = match(
            self.true["unmap_runs"],
            self.rows("unmap_runs"),
            lambda row: (label(row["host"]), row["volume"]),
            overlapping(COARSE_US),
        )
        _found(section, matched)
        _equal(section, matched.pairs, ("block_count", "iterations", "blocks_total", "outcome"))
        self._times(section, matched.pairs, ["started_at", "ended_at"])
        # Here, "unknown" is compared too.
        _equal(section, matched.pairs, ["fell_back"], is_none_compared=True)
        return section

    def scsi_errors(self) -> Section:
        """Compare failed commands: counts by device, path, opcode, status and sense."""
        section = Section("SCSI errors")
        names = ("opcode", "host_status", "device_status", "plugin_status", "sense")
        matched = match(
            self.true["scsi_errors"],
            self.rows("scsi_errors"),
            lambda row: (*_host_and_device(row), row["path"], *(row[each] for each in names)),
            overlapping(COARSE_US),
        )
        _found(section, matched)
        _equal(section, matched.pairs, ["count", "is_expected"])
        self._times(section, matched.pairs, ["started_at", "ended_at"])
        return section

    def path_events(self) -> Section:
        """Compare losses and recoveries of paths, devices and volumes."""
        section = Section("path events")
        subject = ("kind", "path", "device", "datastore")
        matched = match(
            self.true["path_events"],
            self.rows("path_events"),
            lambda row: (label(row["host"]), *(row[each] for each in subject)),
            near("started_at", lambda fact: 10 * SECOND_US),
        )
        _found(section, matched)
        self._times(section, matched.pairs, ["started_at", "ended_at"])
        return section

    def quiet(self) -> Section:
        """Check that harmless messages opened nothing."""
        section = Section("quiet list")
        quiet = {_host_and_device(each) for each in self.true["quiet"]}
        loud = 0
        for view in ("scsi_errors", "latency_episodes", "path_events", "reservation_conflicts"):
            for row in self.rows(view):
                if _host_and_device(row) in quiet and not row.get("is_expected"):
                    loud += 1
                    section.mismatch(f"a row of {view}", row=_shown(row))
        section.at_most("rows that should not be", loud)
        return section

    def advice(self) -> Section:
        """Check that no incident recommends a step that does harm in the simulation."""
        section = Section("advice")
        wrong = 0
        for row in self.rows("incidents"):
            for unsafe in self.true["unsafe_steps"]:
                if not _is_about(row, unsafe):
                    continue
                for step in row["next_steps"]:
                    named = {vm for vm in row["vms"] if vm in f"{step['step']} {step['because']}"}
                    is_anothers = unsafe["vm"] and named and unsafe["vm"] not in named
                    if not is_anothers and advises(step["step"], unsafe["step"]):
                        wrong += 1
                        section.mismatch("unsafe step", unsafe=unsafe, step=step, row=_shown(row))
        section.at_most("unsafe next steps", wrong)
        return section

    def _times(
        self, section: Section, pairs: Sequence[tuple[Row, Row]], names: Iterable[str],
        what: str = "", least_us: int = EXACT_US,
    ) -> None:  # fmt: skip
        """Compute the share of pairs whose times are equal within the tolerance.

        `least_us` is the minimum tolerance on every host.
        """
        for name in names:
            right = 0
            for fact, row in pairs:
                true_us, found_us = microseconds(fact[name]), microseconds(row[name])
                if true_us is None or found_us is None:
                    is_right = true_us == found_us
                else:
                    is_right = abs(true_us - found_us) <= max(least_us, self.tolerance_us(fact))
                right += is_right
                if not is_right:
                    _differs(section, f"{what}{name}", fact, row, name)
            section.at_least(f"{what}{name} right", share(right, len(pairs)))


def lines_section(missing: int, rejected: int) -> Section:
    """Check lines: the simulator writes none that may be lost or rejected."""
    section = Section("lines")
    section.at_most("neither stored nor rejected", missing)
    section.at_most("rejected", rejected)
    return section


def advises(step: str, pattern: str) -> bool:
    """Return True if a step recommends what the pattern names: `do not reset it` does not."""
    return any(
        not _NEGATED.search(step[: found.start()])
        for found in re.finditer(pattern, step, re.IGNORECASE)
    )


def _is_about(incident: Row, unsafe: Row) -> bool:
    """Return True if an incident has the host, VM and device of an unsafe step (if given)."""
    hosts = {label(each) for each in incident["hosts"]}
    return (
        (not unsafe["host"] or label(unsafe["host"]) in hosts)
        and (not unsafe["vm"] or unsafe["vm"] in incident["vms"])
        and (not unsafe["device"] or unsafe["device"] in incident["devices"])
    )


def _vm(row: Row) -> tuple[str, str]:
    return row["datastore"], row["vm"]


def _named(conflict: Row) -> str:
    """Return what the line of a reservation conflict names: a path, a volume or a LUN."""
    path, datastore = conflict.get("path", ""), conflict.get("datastore", "")
    names = {"sync_cr": path, "long_reservation": datastore}
    return str(names.get(conflict["dialect"]) or conflict["device"] or path)


def _host_and_device(row: Row) -> tuple[str, str]:
    return label(row["host"]), row["device"]


def _shown(row: Row) -> Row:
    """Return a row with at most three of its lines."""
    return {**row, "evidence": row.get("evidence", [])[:3]}


def _found(section: Section, matched: Matched, what: str = "") -> None:
    """Compute precision, recall and fragments. A fragment lowers precision too."""
    pairs, missed, fragments, extra = matched
    rows = len(pairs) + len(fragments) + len(extra)
    section.at_least(f"{what}precision", share(len(pairs), rows))
    section.at_least(f"{what}recall", share(len(pairs), len(pairs) + len(missed)))
    section.at_most(f"{what}fragments", len(fragments))
    for fact in missed:
        section.mismatch(f"{what}missed", truth=fact)
    for row in fragments:
        section.mismatch(f"{what}fragment", row=_shown(row))
    for row in extra:
        section.mismatch(f"{what}not in the truth", row=_shown(row))


def _equal(
    section: Section,
    pairs: Sequence[tuple[Row, Row]],
    names: Iterable[str],
    what: str = "",
    *,
    is_none_compared: bool = False,
) -> None:
    """Compute the share of equal values by field. A truth of None is unknown and not compared."""
    for name in names:
        compared = right = 0
        for fact, row in pairs:
            if fact[name] is None and not is_none_compared:
                continue
            compared += 1
            if _plain(fact[name]) == _plain(row[name]):
                right += 1
            else:
                _differs(section, f"{what}{name}", fact, row, name)
        section.at_least(f"{what}{name} right", share(right, compared))


def _plain(value: Any) -> Any:
    """Convert a Bool to 0 or 1, as ClickHouse writes it."""
    return int(value) if isinstance(value, bool) else value


def _differs(section: Section, what: str, fact: Row, row: Row, name: str) -> None:
    section.mismatch(
        f"{what} differs", true=fact[name], found=row[name], truth=fact, row=_shown(row)
    )
