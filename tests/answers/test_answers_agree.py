"""Queries that answer the same question return the same values in every scenario: places.yaml."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from stunwatch.investigations import investigations
from stunwatch.schema import SQL, statements
from tests.answers.scenarios import INCIDENTS, QUICK, ROWS, SIMULATED, fill, insert
from tests.clickhouse_server import Server

ROOT = Path(__file__).parents[2]
FOLDERS = ("investigations", "dashboards", "report", "watch", "metrics")
MOST = 3
"""Maximum number of incidents, changes, VMs or datastores per scenario that are queried."""

PLACES = yaml.safe_load(Path(__file__).with_name("places.yaml").read_text())
QUESTIONS: list[dict[str, Any]] = PLACES["questions"]

Values = dict[str, Any]
"""The parameters of a question, by name."""


def test_every_query_is_listed_in_places_yaml() -> None:
    named = {each["place"] for one in QUESTIONS for each in one["answers"]}
    # A metric queries the view of its dataset.
    asked = {
        f"sql/queries/dashboards/{_metrics(each)[0]}.sql" for each in named if each.endswith("yaml")
    }
    alone = set(PLACES["alone"])
    queries = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (SQL / "queries" / folder).glob("*.sql")
    }
    assert queries - named - asked - alone == set(), "add these to tests/answers/places.yaml"
    assert named & alone == set()
    definitions = {each["definition"] for each in QUESTIONS}
    assert [each for each in named | alone | definitions if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each["question"])
def test_every_question_has_at_least_two_queries(question: dict[str, Any]) -> None:
    assert len(question["answers"]) > 1
    assert all(PLACES["alone"].values()), "a reason is missing"


# -- The values of the parameters


def _incidents(server: Server) -> Iterator[Values]:
    rows = server.reader.named_rows(
        "SELECT toString(incident_id) AS incident, suspect, hosts, vms, evidence_ids, opened_at,"
        " coalesce(closed_at, opened_at) AS until_at, closed_at,"
        " arraySort(datastores)[1] AS datastore,"
        " opened_at + toIntervalMicrosecond(intDiv(dateDiff('microsecond', opened_at, until_at),"
        f" 2)) AS middle FROM incidents ORDER BY opened_at LIMIT {MOST}"
    )
    for row in rows:
        ends = server.reader.rows(
            "SELECT groupArray(ended_at) FROM stuns"
            " WHERE has({evidence_ids:Array(UUID)}, event_id)",
            {"evidence_ids": row["evidence_ids"]},
        )
        margin = timedelta(days=1)
        yield row | {
            "from_at": f"{datetime.fromisoformat(row['opened_at']) - margin:%F %T.%f}",
            "until_at": f"{datetime.fromisoformat(row['until_at']) + margin:%F %T.%f}",
            "step_s": 60,
            "stun_ends": ends[0][0],
        }


def _asked_by(query: str) -> Callable[[Server], Iterator[Values]]:
    return lambda server: iter(server.reader.named_rows(f"{query} LIMIT {MOST}"))


def _hour(server: Server) -> Iterator[Values]:
    rows = server.reader.named_rows(
        "SELECT formatDateTime(as_of - INTERVAL 1 HOUR + INTERVAL 1 MICROSECOND, '%F %T.%f') AS"
        " hour_began, formatDateTime(as_of + INTERVAL 1 MICROSECOND, '%F %T.%f') AS hour_ended"
        " FROM fleet_clock"
    )
    return iter(rows)


EACH: dict[str, Callable[[Server], Iterator[Values]]] = {
    "once": _hour,
    "live": _hour,
    "incident": _incidents,
    "change": _asked_by("SELECT toString(change_id) AS change FROM changes ORDER BY title"),
    "moment": _asked_by(
        "SELECT DISTINCT formatDateTime(changed_at, '%F %T') AS at FROM changes ORDER BY at"
    ),
    "vm": _asked_by(
        "SELECT toString(vm) AS vm FROM stuns GROUP BY vm ORDER BY max(duration_us) DESC"
    ),
    "datastore": _asked_by(
        "SELECT toString(datastore) AS datastore,"
        " formatDateTime(argMax(ended_at, duration_us), '%F %T') AS at,"
        " arrayDistinct(arrayConcat([datastore], (SELECT groupArrayArray([toString(datastore),"
        " toString(datastore_uuid)]) FROM host_extents AS extents"
        " WHERE stuns.datastore IN (extents.datastore, extents.datastore_uuid)))) AS volumes"
        " FROM stuns GROUP BY datastore ORDER BY max(duration_us) DESC"
    ),
    "hour": _asked_by(
        "SELECT formatDateTime(hour, '%F %T') AS at FROM latency_hours GROUP BY hour"
        " ORDER BY max(peak_davg_ms) DESC"
    ),
}
"""`each` of a question → its parameters for each incident, change, …"""


# -- The queries


@cache
def _metrics(place: str) -> tuple[str, dict[str, str]]:
    dataset = yaml.safe_load((ROOT / place).read_text())
    return dataset["table_name"], {
        each["metric_name"]: each["expression"] for each in dataset["metrics"]
    }


def _query(answer: dict[str, Any], values: Values) -> tuple[str, Values]:
    """Return the query of an answer, and its parameters."""
    place = Path(answer["place"])
    if place.suffix == ".yaml":
        view, metrics = _metrics(str(place))
        clause = f" WHERE {answer['where']}" if "where" in answer else ""
        return f"SELECT {metrics[answer['metric']]} FROM {view}{clause}", values
    folder = place.parent.name
    given = {
        name: str(values.get(value, value) if isinstance(value, str) else value)
        for name, value in answer.get("parameters", {}).items()
    }
    if folder == "investigations":
        source, given = investigations()[place.stem].query, _filled(place.stem, given)
    elif folder in ("views", "dashboards"):
        source = f"SELECT * FROM {place.stem}"
    else:
        source = statements((ROOT / place).read_text())[0]
    query = f"SELECT {answer['select']} FROM ({source}) AS asked"
    for word, clause in (("where", "WHERE"), ("group", "GROUP BY"), ("order", "ORDER BY")):
        if word in answer:
            query += f" {clause} {answer[word]}"
    return query, values | given


def _filled(name: str, given: dict[str, str]) -> dict[str, str]:
    """Return all parameters of an investigation."""
    return {each: str(value) for each, value in (investigations()[name].defaults | given).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return round(value, 3)
    return value.rstrip("0").rstrip(".") if isinstance(value, str) and _TIME.match(value) else value


_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.")


def answered(server: Server, answer: dict[str, Any], values: Values) -> list[Any]:
    """Return the rows of one answer."""
    query, given = _query(answer, values)
    names = set(re.findall(r"\{(\w+):", query))
    rows = server.reader.rows(query, {name: given[name] for name in names})
    take = answer.get("take")
    return [_plain([row[each] for each in take] if take else row) for row in rows]


def disagreements(server: Server, is_live: bool = False) -> Iterator[str]:
    """Describe each question whose queries differ, with the first two different rows."""
    for question in QUESTIONS:
        if (question["each"] == "live") != is_live:
            continue
        for values in EACH[question["each"]](server):
            first, *others = question["answers"]
            expected = answered(server, first, values)
            for other in others:
                found = answered(server, other, values)
                if found != expected:
                    different = [
                        pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]
                    ]
                    yield (
                        f"{question['question']} {first['place']} and {other['place']} differ in"
                        f" {len(different)} of {len(expected)} and {len(found)} rows:"
                        f" {different[:1] or (expected[-1:], found[-1:])}"
                    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if each in QUICK else pytest.mark.slow)
        for each in (*INCIDENTS, *ROWS, *SIMULATED)
    ],
)
def test_queries_for_the_same_question_agree(server: Server, name: str, tmp_path: Path) -> None:
    fill(server, name, tmp_path)
    assert list(disagreements(server)) == []


def test_queries_for_the_same_live_question_agree(server: Server) -> None:
    """One source has been silent for two hours, and a detector failed a minute ago."""
    server.empty()
    now = datetime.now(UTC)

    def ago(minutes: int) -> str:
        return f"{now - timedelta(minutes=minutes):%F %T}"

    for host, minutes in (("esx1", range(0, 600, 5)), ("esx2", range(120, 600, 5))):
        insert(
            server,
            "source_activity_stored",
            [
                {
                    "source": "syslog",
                    "host": host,
                    "bucket": ago(each),
                    "first_received_at": ago(each),
                    "last_received_at": ago(each),
                }
                for each in minutes
            ],
        )
    newest = {"source": "syslog", "arrived_at": ago(0), "line_at": ago(0)}
    insert(server, "newest_lines_stored", [newest])
    insert(
        server,
        "rejected_lines_stored",
        [
            {
                "received_at": ago(1),
                "source": "syslog",
                "host": "esx1",
                "line": "{}",
                "reason": "detector stuns failed: KeyError",
                "run_id": "live",
            }
        ],
    )
    assert list(disagreements(server, is_live=True)) == []
