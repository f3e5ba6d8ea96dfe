"""Computes the incidents of a time in the past from the events in ClickHouse.

A replay adds events, and an inventory shows which hosts share a device. Both can change the
incidents of that time. They are a function of all events known, so they are computed again
(engine/history.py). Incidents of live events are computed in Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Final

import orjson

from stunwatch.access import kafka_access
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.definitions import Definition, events
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.detectors.events import timestamp
from stunwatch.engine.failures import REJECTED_TOPIC, Failure, rejected_line
from stunwatch.engine.history import (
    Fed,
    FleetHistory,
    Row,
    final_incidents,
    is_same_incident,
)
from stunwatch.engine.owners import LIVE
from stunwatch.incidents.configuration import (
    BAD_STUN_US,
    CLOSING_US,
    HOUR_US,
    KEEP_US,
    RUNNING_US,
    SEEN_US,
)
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC
from stunwatch.incidents.hosts_seen import STRETCH_US
from stunwatch.incidents.signals import TOPICS, microseconds
from stunwatch.settings import Settings
from stunwatch.shipping import Shipper

USUAL_HOURS_US: Final = 28 * 24 * HOUR_US
"""Stuns of the last four weeks form the seasonal baseline."""

_STUNS: Final = "events.stun"
_SENT_AT_ONCE: Final = 1000

_EVENTS: Final = """
SELECT {columns}
FROM {table} FINAL
WHERE {condition}
"""

# Also retracted ones: a row that appears again needs a higher revision.
_INCIDENTS: Final = """
SELECT {columns}
FROM {table}
WHERE opened_at BETWEEN {{since:DateTime64(6, 'UTC')}} AND {{until:DateTime64(6, 'UTC')}}
ORDER BY version DESC
LIMIT 1 BY event_id
"""

# Lines that are newer than an open incident may close it.
_OPEN: Final = """
SELECT toUnixTimestamp64Micro(min(opened_at)), count()
FROM incidents_stored FINAL
WHERE state = 'open' AND run_id != 'live'
"""

_SEEN: Final = """
SELECT host, toUnixTimestamp64Micro(min(at)) AS seen_us, toUnixTimestamp64Micro(max(at)) AS last_us
FROM (
    SELECT host, event_time AS at
    FROM log_lines_stored
    WHERE
        source = 'syslog'
        AND event_time BETWEEN {since:DateTime64(6, 'UTC')} AND {until:DateTime64(6, 'UTC')}
    UNION ALL
    SELECT host, sampled_at AS at
    FROM latency_samples_stored
    WHERE sampled_at BETWEEN {since:DateTime64(6, 'UTC')} AND {until:DateTime64(6, 'UTC')}
)
WHERE host != ''
GROUP BY host, toStartOfInterval(at, INTERVAL 10 MINUTE)
"""

_AS_IN_KAFKA: Final = {
    "output_format_json_quote_64bit_integers": "0",
    "date_time_output_format": "iso",
}


def judge(
    settings: Settings,
    run_id: str,
    span_us: tuple[int, int],
    while_waiting: Callable[[], None],
    hosts_sent: Iterable[Row] = (),
) -> int:
    """Compute the incidents that overlap a time, and write the changed ones to Kafka.

    `span_us`: the first and the last event time of a replay, µs since 1970. `run_id` is that of new
    incidents. `hosts_sent`: when hosts were seen in lines that may not be stored yet, as in _SEEN.
    Return the number of written rows. Raises UserError.
    """
    failures: list[Failure] = []
    clickhouse = as_user(settings, "analyst")
    rows = changed_incidents(clickhouse, run_id, span_us, failures, hosts_sent)
    if not rows and not failures:
        return 0
    shipper = Shipper(kafka_access(settings, "replay"), while_waiting)
    messages = [{"key": row["event_id"].encode(), "value": orjson.dumps(row)} for row in rows]
    for first in range(0, len(messages), _SENT_AT_ONCE):
        shipper.send(INCIDENTS_TOPIC, messages[first : first + _SENT_AT_ONCE])
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    reports = [rejected_line(each, run_id, now_ms).encode() for each in failures[:_SENT_AT_ONCE]]
    shipper.send(REJECTED_TOPIC, [{"key": b"", "value": each} for each in reports])
    shipper.flush()
    return len(messages)


def judge_replays(
    settings: Settings, run_id: str, while_waiting: Callable[[], None] = lambda: None
) -> int:
    """Compute the incidents of all replays again, because the inventory has changed.

    Live incidents of the same time are computed again, too. Return the number of changed rows.
    """
    defined = events()
    spans = " UNION ALL ".join(
        f"SELECT started_at FROM {defined[topic].table} WHERE run_id != 'live'" for topic in TOPICS
    )
    query = f"""
        SELECT
            toUnixTimestamp64Micro(min(started_at)),
            toUnixTimestamp64Micro(max(started_at)),
            count()
        FROM ({spans})
    """
    [(first_us, last_us, count)] = as_user(settings, "analyst").rows(query)
    return judge(settings, run_id, (first_us, last_us), while_waiting) if count else 0


def changed_incidents(
    clickhouse: ClickHouse,
    run_id: str,
    span_us: tuple[int, int],
    failures: list[Failure],
    hosts_sent: Iterable[Row] = (),
) -> list[Row]:
    """Return the rows of schemas/incident.yaml that differ from the stored ones.

    Errors of the correlator are appended to `failures`. Raises UserError.
    """
    [(opened_us, count)] = clickhouse.rows(_OPEN)
    if count:
        span_us = min(span_us[0], opened_us), span_us[1]
    fed = list(events_around(clickhouse, span_us, hosts_sent))
    return changes(fed, run_id, span_us, failures)


def changes(
    fed: list[Fed], run_id: str, span_us: tuple[int, int], failures: list[Failure]
) -> list[Row]:
    """Return the incidents that new events of a time change, from all events around it.

    An event matters to incidents that began hours before, and stuns to the seasonal baseline of the
    weeks after it. So the incidents of that time are computed again, too: the order of loads does
    not matter.
    """
    first_us, last_us = affected(span_us)
    newest_us = max((_newest_us(*each) for each in fed), default=0)
    span_us = first_us, max(span_us[1], min(last_us, newest_us))
    known = {event["event_id"]: event for topic, event in fed if topic == INCIDENTS_TOPIC}
    changed = []
    for row in final_incidents(FleetHistory(run_id, *span_us), fed, failures):
        before = known.get(row["event_id"])
        if is_same_incident(row, before):
            continue
        if before and (before["run_id"], before["state"]) == (LIVE, "open"):
            continue  # the live job still writes it
        # A live incident stays one when a replay changes it: only those alert. But the live job
        # does not close it again, so one that is open again belongs to the replay.
        is_open_again = before and before["state"] != row["state"] == "open"
        changed.append(row | {"run_id": before["run_id"]} if before and not is_open_again else row)
    return changed


def events_around(
    clickhouse: ClickHouse, span_us: tuple[int, int], hosts_sent: Iterable[Row] = ()
) -> Iterator[Fed]:
    """Yield all events that may belong to incidents that this time affects, as in Kafka.

    An incident may involve the whole fleet, so they are the events of all runs. Inventory has no
    time limit.
    """
    first_us, last_us = affected(span_us)
    defined = events()
    until = _time(last_us + KEEP_US)
    for topic in (*TOPICS, INVENTORY_TOPIC, INCIDENTS_TOPIC):
        ago_us = USUAL_HOURS_US if topic == _STUNS else RUNNING_US
        limits = {"since": _time(first_us - ago_us), "until": until}
        rows = _rows(clickhouse, _query(topic, defined[topic]), limits)
        detector = next(iter(defined[topic].identity))
        yield from ((topic, row | {"detector": detector}) for row in rows)
    since_us = first_us - RUNNING_US - SEEN_US - STRETCH_US
    stored = _rows(clickhouse, _SEEN, {"since": _time(since_us), "until": until})
    # A file may also contain lines of any other time.
    sent = (
        row
        for row in hosts_sent
        if row["last_us"] >= max(0, since_us) and row["seen_us"] <= last_us + KEEP_US
    )
    yield from ((SEEN_TOPIC, row) for row in _united(chain(stored, sent)))


def _united(seen: Iterable[Row]) -> Iterable[Row]:
    """Return one row per host and ten minutes, from rows of stored lines and of lines just sent."""
    united: dict[tuple[str, int], Row] = {}
    for row in seen:
        known = united.setdefault((row["host"], row["seen_us"] // STRETCH_US), row)
        if known is not row:
            known["seen_us"] = min(known["seen_us"], row["seen_us"])
            known["last_us"] = max(known["last_us"], row["last_us"])
    return united.values()


def _time(since_1970_us: int) -> str:
    """Return a time as a parameter of a query."""
    return timestamp(max(0, since_1970_us)).removesuffix("Z").replace("T", " ")


def affected(span_us: tuple[int, int]) -> tuple[int, int]:
    """Return the time whose incidents events of a span may change."""
    return span_us[0] - RUNNING_US, span_us[1] + USUAL_HOURS_US


def _newest_us(topic: str, event: Row) -> int:
    """Return the newest time that an event, a closed incident or the lines of a host prove."""
    if topic == SEEN_TOPIC:
        return int(event["last_us"] if "last_us" in event else event["seen_us"])
    if topic == INVENTORY_TOPIC:
        return 0
    if topic == INCIDENTS_TOPIC:
        # The live job closes an incident when the clock of the fleet shows that it is over. That
        # clock also shows the time without lines.
        is_closed = event["run_id"] == LIVE and event["closed_at"]
        return microseconds(event["closed_at"]) + CLOSING_US if is_closed else 0
    return microseconds(event["ended_at"] or event["started_at"])


def _query(topic: str, event: Definition) -> str:
    """Return the query for the newest rows of a kind of event."""
    fields = ", ".join(name for name in event.fields if name != "detector")
    if topic == INCIDENTS_TOPIC:
        return _INCIDENTS.format(columns=fields, table=event.table)
    condition = "started_at BETWEEN {since:DateTime64(6, 'UTC')} AND {until:DateTime64(6, 'UTC')}"
    if topic == INVENTORY_TOPIC:
        condition = "TRUE"
    elif topic == _STUNS:
        # Nearly all stuns are short and belong to no incident.
        condition += f" AND duration_us >= {BAD_STUN_US}"
    return _EVENTS.format(columns=fields, table=event.table, condition=condition)


def _rows(clickhouse: ClickHouse, query: str, limits: Mapping[str, str]) -> Iterator[Row]:
    """Yield the rows of a query one by one. Raises QueryError."""
    rest = b""
    for piece in clickhouse.stream(query, limits, output="JSONEachRow", settings=_AS_IN_KAFKA):
        *lines, rest = (rest + piece).split(b"\n")
        yield from map(orjson.loads, lines)
    if rest:
        yield orjson.loads(rest)
