"""Simulate, replay, compare with the truth: `make score SEED=n`.

A night of a fleet that never was goes through the running pipeline; then the public views are
compared with what the simulator knows. Prints a table, examples of what differs, and the confusion
of causes; writes build/score.json. Exit code 1: a limit was missed, or lines were.

Every run names its fleet anew, so that rows of an earlier run, or of an earlier detector, do not
count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from ingest.replay import Options, plan
from stunwatch.clickhouse import ClickHouse, QueryError, as_user
from stunwatch.commands import replay
from stunwatch.commands.up import up
from stunwatch.settings import ROOT, Settings, load_settings
from stunwatch.simulation import truth as truths
from stunwatch.simulation.run import Scale, Simulation, write

Row = dict[str, Any]

EXAMPLES = 5
"""Of each kind of mismatch that many are shown."""

MS = 1000
SECOND_US = 1_000_000

CAUSE_F1 = 0.98
CAUSE_WRONG = 0.005
SUSTAINED_RECALL, SUSTAINED_PRECISION = 0.98, 0.95
LONE_SPIKES_NOT_SUSTAINED = 0.99

_QUERIES = {
    "stuns": "SELECT host, vm, datastore, ended_at, duration_us, measured_by, cause, cause_detail,"
    " migration_id, evidence FROM stuns",
    "snapshot_operations": "SELECT host, vm, datastore, kind, name, started_at, ended_at, outcome,"
    " iterations, helper_sizes, is_converging, pages, lazy_io_ms, evidence"
    " FROM snapshot_operations",
    "reservation_conflicts": "SELECT host, world_id, first_remaining, last_remaining, steps,"
    " started_at, ended_at, outcome, device, dialect, is_stuck, is_expected, evidence"
    " FROM reservation_conflicts",
    "latency_episodes": "SELECT host, device, metric, origin, kind, started_at, ended_at, peak_ms,"
    " samples, evidence FROM latency_episodes",
    "unmap_runs": "SELECT host, volume, block_count, iterations, blocks_total, started_at,"
    " ended_at, fell_back, outcome, evidence FROM unmap_runs",
    "scsi_errors": "SELECT host, device, host_status, device_status, plugin_status, is_expected,"
    " started_at, ended_at, evidence FROM scsi_errors",
    "path_events": "SELECT host, path, device, datastore, kind, started_at, evidence"
    " FROM path_events",
}
"""What is asked of every view; its rows are those of the fleet's hosts."""


@dataclass
class Figure:
    """A number, and the limit that it must reach, if it has one."""

    name: str
    value: float
    limit: float | None = None
    is_most: bool = False
    """The limit is the most that it may be."""

    @property
    def is_met(self) -> bool:
        """Without a limit it always is."""
        if self.limit is None:
            return True
        return self.value <= self.limit if self.is_most else self.value >= self.limit


@dataclass
class Section:
    """What was compared of one view."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Mismatches by kind."""
    examples: dict[str, list[Any]] = field(default_factory=dict)
    confusion: dict[str, Counter[str]] = field(default_factory=dict)
    """Of causes: true → found → how many."""

    def figure(
        self, name: str, value: float, limit: float | None = None, *, is_most: bool = False
    ) -> None:
        """Add a figure, rounded to what is printed."""
        self.figures.append(Figure(name, round(value, 6), limit, is_most))

    def mismatch(self, kind: str, **what: Any) -> None:
        """Count a mismatch and keep the first few."""
        self.counts[kind] += 1
        kept = self.examples.setdefault(kind, [])
        if len(kept) < EXAMPLES:
            kept.append(what)

    @property
    def is_met(self) -> bool:
        """Every limit is."""
        return all(each.is_met for each in self.figures)


# == Small parts


def microseconds(text: str | None) -> int | None:
    """`2021-01-04T20:00:00.123456Z`, or as ClickHouse writes it, as microseconds since 1970."""
    if not text:
        return None
    moment = datetime.fromisoformat(text.removesuffix("Z").replace(" ", "T")[:26])
    return round((moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / _MICROSECOND)


_MICROSECOND = timedelta(microseconds=1)


def _at(row: Row, name: str) -> int:
    found = microseconds(row[name])
    assert found is not None
    return found


def _label(host: str) -> str:
    """A host without its domain: a line may name it either way."""
    return host.partition(".")[0].lower()


def share(part: int, of: int) -> float:
    """1 of nothing: what is not there is not missed."""
    return part / of if of else 1.0


def _shown(row: Row) -> Row:
    """A row with few of its lines."""
    return {**row, "evidence": row.get("evidence", [])[:3]}


def pair(
    true: Sequence[Row],
    found: Sequence[Row],
    key: Callable[[Row], object],
    distance: Callable[[Row, Row], float | None],
) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
    """Each truth with its nearest row of the same key: (pairs, truths missed, rows too many).

    `distance` gives None for what is too far apart.
    """
    rest: dict[object, list[Row]] = {}
    for row in found:
        rest.setdefault(key(row), []).append(row)
    pairs, missed = [], []
    for fact in true:
        near = [
            (far, number)
            for number, row in enumerate(rest.get(key(fact), []))
            if (far := distance(fact, row)) is not None
        ]
        if near:
            pairs.append((fact, rest[key(fact)].pop(min(near)[1])))
        else:
            missed.append(fact)
    return pairs, missed, [row for rows in rest.values() for row in rows]


def _apart(name: str, most_us: int) -> Callable[[Row, Row], float | None]:
    """How far two times are apart; None beyond `most_us`."""

    def distance(fact: Row, row: Row) -> float | None:
        far = abs(_at(fact, name) - _at(row, name))
        return far if far <= most_us else None

    return distance


def _overlaps(fact: Row, row: Row, slack_us: int) -> bool:
    """Whether two spans touch; one without an end goes on."""
    fact_end = microseconds(fact.get("ended_at"))
    row_end = microseconds(row.get("ended_at"))
    return (row_end is None or _at(fact, "started_at") <= row_end + slack_us) and (
        fact_end is None or _at(row, "started_at") <= fact_end + slack_us
    )


def _found(
    section: Section,
    pairs: Sequence[tuple[Row, Row]],
    missed: Sequence[Row],
    extra: Sequence[Row],
    limit: float | None,
    what: str = "",
) -> None:
    """Precision and recall, and what is behind them."""
    section.figure(f"{what}precision", share(len(pairs), len(pairs) + len(extra)), limit)
    section.figure(f"{what}recall", share(len(pairs), len(pairs) + len(missed)), limit)
    for fact in missed:
        section.mismatch(f"{what}missed", truth=fact)
    for row in extra:
        section.mismatch(f"{what}not in the truth", row=_shown(row))


def _same(
    section: Section,
    pairs: Sequence[tuple[Row, Row]],
    fields: Iterable[str],
    limit: float | None,
    normal: Callable[[str, Any], Any] = lambda name, value: value,
) -> None:
    """The share of pairs that agree, field by field; a truth of None is not compared."""
    for name in fields:
        compared = right = 0
        for fact, row in pairs:
            if fact[name] is None:
                continue
            compared += 1
            if normal(name, fact[name]) == normal(name, row[name]):
                right += 1
            else:
                section.mismatch(
                    f"{name} differs", true=fact[name], found=row[name], truth=fact, row=_shown(row)
                )
        section.figure(f"{name} right", share(right, compared), limit)


# == View by view


def compare_stuns(true: Sequence[Row], found: Sequence[Row]) -> tuple[Section, Section]:
    """Stuns to the microsecond, and their causes."""
    stuns, causes = Section("stuns"), Section("causes")
    by_hostd = [each for each in true if each["measured_by"] == "hostd"]
    by_log = [each for each in true if each["measured_by"] != "hostd"]
    rows_by_hostd = [each for each in found if each["measured_by"] == "hostd"]
    rows_by_log = [each for each in found if each["measured_by"] != "hostd"]
    pairs, missed, extra = pair(
        by_log,
        rows_by_log,
        lambda row: (row["datastore"], row["vm"], _at(row, "ended_at") // MS),
        lambda fact, row: 0.0,
    )
    # Where hostd alone tells, the migration is the name.
    more, more_missed, more_extra = pair(
        by_hostd, rows_by_hostd, lambda row: row["migration_id"], lambda fact, row: 0.0
    )
    pairs, missed, extra = pairs + more, missed + more_missed, extra + more_extra
    _found(stuns, pairs, missed, extra, 1.0)
    errors = [(abs(fact["duration_us"] - row["duration_us"]), fact, row) for fact, row in pairs]
    stuns.figure("largest error, µs", max((each[0] for each in errors), default=0), 0, is_most=True)
    for error, fact, row in errors:
        if error:
            stuns.mismatch("duration differs", error_us=error, truth=fact, row=_shown(row))
    _same(stuns, pairs, ["measured_by"], None)
    _compare_causes(causes, pairs)
    return stuns, causes


def _compare_causes(section: Section, pairs: Sequence[tuple[Row, Row]]) -> None:
    wrong = 0
    for fact, row in pairs:
        section.confusion.setdefault(fact["cause"], Counter())[row["cause"]] += 1
        if fact["cause"] != row["cause"]:
            wrong += row["cause"] != "unknown"
            section.mismatch(
                f"{fact['cause']} taken for {row['cause']}", truth=fact, row=_shown(row)
            )
    section.figure("macro-F1", macro_f1(section.confusion), CAUSE_F1)
    section.figure("wrong, not unknown", share(wrong, len(pairs)) if pairs else 0, CAUSE_WRONG,
                   is_most=True)  # fmt: skip
    migrations = [each for each in pairs if each[0]["cause"] == "vmotion"]
    _same(section, migrations, ["migration_id"], None)


def macro_f1(confusion: dict[str, Counter[str]]) -> float:
    """The mean over the true classes of F1, each class weighing the same."""
    scores = []
    for cause, row in confusion.items():
        right = row[cause]
        found = sum(each[cause] for each in confusion.values())
        scores.append(2 * right / (sum(row.values()) + found))
    return sum(scores) / len(scores) if scores else 1.0


def compare_snapshots(true: Sequence[Row], found: Sequence[Row]) -> Section:
    """Exact: every operation, every field that the log tells."""
    section = Section("snapshot operations")
    pairs, missed, extra = pair(
        true,
        found,
        lambda row: (row["datastore"], row["vm"], row["kind"], _at(row, "started_at") // MS),
        lambda fact, row: 0.0,
    )
    _found(section, pairs, missed, extra, 1.0)
    fields = ("name", "ended_at", "outcome", "iterations", "is_converging", "pages", "lazy_io_ms")
    _same(section, pairs, fields, 1.0, _normal)
    with_helpers = [each for each in pairs if each[0]["iterations"] is not None]
    _same(section, with_helpers, ["helper_sizes"], 1.0)
    return section


def _normal(name: str, value: Any) -> Any:
    """Times to the millisecond; a Bool comes as 0 and 1 too."""
    if name.endswith("_at"):
        found = microseconds(value)
        return None if found is None else found // MS
    if name.startswith("is_") or name == "fell_back":
        return None if value is None else bool(value)
    return value


def compare_conflicts(true: Sequence[Row], found: Sequence[Row]) -> Section:
    """Count-downs step by step; the other dialects by device and time."""
    section = Section("reservation conflicts")
    counted = [each for each in true if each["dialect"] == "sync_cr"]
    rows = [each for each in found if each["dialect"] == "sync_cr"]

    def near(fact: Row, row: Row) -> float | None:
        far = abs(_at(fact, "started_at") - _at(row, "started_at"))
        return far if far <= (10 * MS if fact["has_exact_time"] else 1_500 * MS) else None

    pairs, missed, extra = pair(
        counted,
        rows,
        lambda row: (_label(row["host"]), str(row["world_id"]), row["first_remaining"]),
        near,
    )
    _found(section, pairs, missed, extra, 1.0, "count-down ")
    fields = ("outcome", "steps", "last_remaining", "is_stuck", "device")
    _same(section, pairs, fields, 1.0, _normal)
    for dialect in ("device_status", "long_reservation"):
        told = [each for each in true if each["dialect"] == dialect]
        rows = [each for each in found if each["dialect"] == dialect]
        _cover(section, told, rows, f"{dialect} ", 1.0, 1.0)
    return section


def _cover(
    section: Section,
    true: Sequence[Row],
    rows: Sequence[Row],
    what: str,
    least_precision: float | None,
    least_recall: float | None,
    slack_us: int = 2 * SECOND_US,
) -> None:
    """Spans of a host's device that overlap: any number of rows may cover a truth."""
    by_key: dict[object, list[Row]] = {}
    for row in rows:
        by_key.setdefault((_label(row["host"]), row["device"]), []).append(row)
    covered = 0
    used: set[int] = set()
    for fact in true:
        over = [
            row
            for row in by_key.get((_label(fact["host"]), fact["device"]), [])
            if _overlaps(_span(fact), row, slack_us)
        ]
        covered += bool(over)
        used |= {id(row) for row in over}
        if not over:
            section.mismatch(f"{what}missed", truth=fact)
    extra = [row for row in rows if id(row) not in used]
    for row in extra:
        section.mismatch(f"{what}not in the truth", row=_shown(row))
    section.figure(f"{what}precision", share(len(rows) - len(extra), len(rows)), least_precision)
    section.figure(f"{what}recall", share(covered, len(true)), least_recall)


def _span(fact: Row) -> Row:
    """With an end, where the truth has a length instead."""
    if "ended_at" in fact:
        return fact
    ended_us = _at(fact, "started_at") + fact.get("duration_ms", 0) * MS
    return {**fact, "ended_at": truths.text(ended_us)}


def compare_latency(true: Sequence[Row], found: Sequence[Row]) -> Section:
    """What esxtop shows: sustained or not; what the kernel tells, for information."""
    section = Section("latency")
    for metric in ("davg", "kavg"):
        rows = [
            each
            for each in found
            if each["origin"] == "esxtop"
            and each["metric"].startswith(metric)
            and each["kind"] == "sustained"
        ]
        told = [
            each
            for each in true
            if each["origin"] == "esxtop" and each["metric"] == metric and each["is_sustained"]
        ]
        _cover(
            section, told, rows, f"sustained {metric} ", SUSTAINED_PRECISION, SUSTAINED_RECALL, 0
        )
    sustained = [
        each for each in found if each["origin"] == "esxtop" and each["kind"] == "sustained"
    ]
    for name, is_lone, limit in (
        ("lone spikes not sustained", True, LONE_SPIKES_NOT_SUSTAINED),
        ("short spikes not sustained", False, None),
    ):
        spikes = [
            each
            for each in true
            if each["origin"] == "esxtop"
            and each["is_sustained"] is False
            and each["is_lone"] is is_lone
        ]
        taken = 0
        by_key: dict[object, list[Row]] = {}
        for row in sustained:
            by_key.setdefault((_label(row["host"]), row["device"]), []).append(row)
        for spike in spikes:
            for row in by_key.get((_label(spike["host"]), spike["device"]), []):
                if _overlaps(spike, row, 0):
                    taken += 1
                    section.mismatch(f"{name[:-14]} sustained", truth=spike, row=_shown(row))
                    break
        section.figure(name, share(len(spikes) - taken, len(spikes)), limit)
    told = [each for each in true if each["origin"] == "vmkernel"]
    rows = [each for each in found if each["origin"] == "vmkernel"]
    _cover(section, told, rows, "vmkernel ", None, None)
    return section


def compare_unmaps(true: Sequence[Row], found: Sequence[Row]) -> Section:
    """Exact."""
    section = Section("UNMAP runs")
    pairs, missed, extra = pair(
        true,
        found,
        lambda row: (_label(row["host"]), row["volume"]),
        _apart("started_at", SECOND_US),
    )
    _found(section, pairs, missed, extra, 1.0)
    _same(section, pairs, ("block_count", "iterations", "blocks_total", "outcome"), 1.0)
    _same(section, pairs, ("started_at", "ended_at"), 1.0, _normal)
    right = 0
    for fact, row in pairs:
        # Here "not known" is an answer too.
        if _normal("fell_back", fact["fell_back"]) == _normal("fell_back", row["fell_back"]):
            right += 1
        else:
            section.mismatch("fell_back differs", truth=fact, row=_shown(row))
    section.figure("fell_back right", share(right, len(pairs)), 1.0)
    return section


def compare_quiet(true: Sequence[Row], found: dict[str, list[Row]]) -> Section:
    """What must open nothing."""
    section = Section("quiet list")
    quiet = {(_label(each["host"]), each["device"]) for each in true}
    loud = 0
    for view in ("scsi_errors", "latency_episodes", "path_events", "reservation_conflicts"):
        for row in found.get(view, []):
            if row.get("is_expected"):
                continue
            if (_label(row["host"]), row["device"]) in quiet:
                loud += 1
                section.mismatch(f"a row of {view}", row=_shown(row))
    section.figure("rows that should not be", loud, 0, is_most=True)
    return section


def compare_faults(true: Row, found: dict[str, list[Row]]) -> Section:
    """SCSI errors and path events, for information."""
    section = Section("array and paths")
    errors = [{**each, "ended_at": None} for each in true["scsi_errors"]]
    _cover(section, errors, found.get("scsi_errors", []), "SCSI error ", None, None)
    for kind in sorted({each["kind"] for each in true["path_events"]}):
        told = [each for each in true["path_events"] if each["kind"] == kind]
        rows = [each for each in found.get("path_events", []) if each["kind"] == kind]
        pairs, missed, _ = pair(
            told, rows, lambda row: _label(row["host"]), _apart("started_at", 10 * SECOND_US)
        )
        section.figure(f"{kind} recall", share(len(pairs), len(told)))
        for fact in missed:
            section.mismatch(f"{kind} missed", truth=fact)
    return section


def compare(true: Row, found: dict[str, list[Row]]) -> list[Section]:
    """All sections. A view without rows counts as one that found nothing."""
    return [
        *compare_stuns(true["stuns"], found.get("stuns", [])),
        compare_snapshots(true["snapshot_operations"], found.get("snapshot_operations", [])),
        compare_conflicts(true["reservation_conflicts"], found.get("reservation_conflicts", [])),
        compare_latency(true["latency"], found.get("latency_episodes", [])),
        compare_unmaps(true["unmap_runs"], found.get("unmap_runs", [])),
        compare_quiet(true["quiet"], found),
        compare_faults(true, found),
    ]


# == The run


def rows_of(clickhouse: ClickHouse, query: str, fleet: str) -> list[Row]:
    """The rows of a view that belong to a fleet, by its hosts' names."""
    own = f"{query} WHERE endsWith(splitByChar('.', host)[1], {{label:String}})"
    return clickhouse.named_rows(own, {"label": f"-{fleet}"})


def found_in(clickhouse: ClickHouse, fleet: str, console: Console) -> dict[str, list[Row]]:
    """What the views show of the fleet; a view that is not there yet is told of and empty."""
    found = {}
    for view, query in _QUERIES.items():
        try:
            found[view] = rows_of(clickhouse, query, fleet)
        except QueryError as problem:
            console.print(f"[red]{view}: {problem}", highlight=False)
            found[view] = []
    return found


def run(settings: Settings, scale: Scale, out: Path, console: Console) -> tuple[Row, list[Section]]:
    """Simulate into `out`, replay, compare; returns (about the run, sections)."""
    started = time.monotonic()
    simulation = Simulation(scale)
    write(simulation, out)
    true = truths.load((out / truths.FILE).read_bytes())
    simulated_s = time.monotonic() - started
    with plan([out], Options()) as what:
        outcome = replay.run(settings, what, Options(), console)
    console.print(outcome.summary, highlight=False)
    sections = compare(true, found_in(as_user(settings, "reader"), scale.name, console))
    lines = Section("lines")
    lines.figure("neither stored nor rejected", sum(outcome.missing.values()), 0, is_most=True)
    lines.figure("rejected", outcome.rejected, 0, is_most=True)
    lines.figure("share that matters", true["mattering_lines"] / true["lines"])
    about = {
        "seed": scale.seed,
        "fleet": scale.name,
        "run_id": outcome.run_id,
        "hosts": scale.hosts,
        "vms": scale.vms,
        "minutes": scale.minutes,
        "lines": outcome.read,
        "samples": true["samples"],
        "simulated_seconds": round(simulated_s, 1),
        "replay_seconds": round(outcome.seconds, 1),
        "lines_per_second": round(outcome.read / max(outcome.seconds, 0.001)),
    }
    return about, [lines, *sections]


def show(sections: Sequence[Section], console: Console) -> None:
    """The table, the confusion of causes, and examples of what differs."""
    table = Table("view", "figure", "value", "limit", "")
    for section in sections:
        for number, each in enumerate(section.figures):
            limit = "" if each.limit is None else f"{'≤' if each.is_most else '≥'} {each.limit:g}"
            mark = "" if each.limit is None else "[green]✓" if each.is_met else "[red]✗"
            value = f"{each.value:,.4f}".rstrip("0").rstrip(".")
            table.add_row("" if number else section.name, each.name, value, limit, mark)
    console.print(table)
    for section in sections:
        if section.confusion:
            causes = sorted(
                {*section.confusion, *(c for r in section.confusion.values() for c in r)}
            )
            grid = Table("true \\ found", *causes)
            for cause, row in sorted(section.confusion.items()):
                grid.add_row(cause, *(str(row[each] or "·") for each in causes))
            console.print(grid)
        for kind, count in section.counts.most_common():
            console.print(f"\n[bold]{section.name}: {kind}[/] ({count})", highlight=False)
            for example in section.examples[kind]:
                console.print(
                    orjson.dumps(example, option=orjson.OPT_INDENT_2).decode(),
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )


def report(about: Row, sections: Sequence[Section]) -> Row:
    """What build/score.json holds."""
    return {
        **about,
        "is_met": all(each.is_met for each in sections),
        "sections": [
            {
                "name": each.name,
                "figures": [{**asdict(f), "is_met": f.is_met} for f in each.figures],
                "differences": dict(each.counts),
                "examples": dict(each.examples),
                "confusion": {cause: dict(row) for cause, row in each.confusion.items()},
            }
            for each in sections
        ],
    }


def main() -> None:
    """Run, print the table, write build/score.json; exit 1 where a limit is missed."""
    parser = argparse.ArgumentParser(prog="make score", description=__doc__)
    usual = Scale()
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--hosts", type=int, default=usual.hosts)
    parser.add_argument("--vms", type=int, default=usual.vms)
    parser.add_argument("--minutes", type=int, default=usual.minutes)
    parser.add_argument("--keep", type=Path, help="an empty folder in which the logs stay")
    options = parser.parse_args()
    up()
    settings = load_settings()
    console = Console(stderr=True)
    name = f"s{options.seed}r{int(time.time()) % 100_000_000:x}"
    scale = Scale(options.hosts, options.vms, options.minutes, options.seed, name)
    with tempfile.TemporaryDirectory(prefix="stunwatch-score-") as folder:
        about, sections = run(settings, scale, options.keep or Path(folder), console)
    show(sections, Console())
    made = report(about, sections)
    settings.build.mkdir(exist_ok=True)
    (ROOT / "build" / "score.json").write_bytes(
        orjson.dumps(made, option=orjson.OPT_INDENT_2) + b"\n"
    )
    missed = [f"{each.name}: {f.name}" for each in sections for f in each.figures if not f.is_met]
    if missed:
        console.print(f"[red]Missed: {'; '.join(missed)}", highlight=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
