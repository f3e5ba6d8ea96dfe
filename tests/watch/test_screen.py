"""The live view's frame from given results, and polls that fail."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from stunwatch.errors import UserError
from stunwatch.live_view import polls, screen
from stunwatch.live_view.polls import Answer, Event, Flow, FlowMeter, Poll
from stunwatch.live_view.screen import View, age, frame, lag_by_reader
from stunwatch.local.health import ComponentHealth, Health, LiveLines, TopicHealth
from stunwatch.newest_line import live_lines

NOW = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)

INCIDENT = {
    "incident_id": "1f0a3a51-6a52-5a57-8d7c-0a1e7a9f2b11",
    "opened_at": "2026-03-01 02:10:00.000000",
    "state": "open",
    "scope": "array_or_fabric",
    "severity": "critical",
    "verdict": "DAVG above 1 000 ms on 6 LUNs [red]from[/] 9 hosts.",
    "confidence": "high",
    "affected_hosts": 9,
    "reporting_hosts": 12,
    "run_id": "live",
}


LINES = {
    state: {"as_of": "2026-03-01 02:30:00.000", "state": state, "message": message}
    for state, message in {
        "ok": "Newest live line 3 seconds ago",
        "few_hosts": "Only 1 of 40 hosts send lines",
        "replayed_only": "Only replayed logs: no live line was ever received",
        "never": "No live line was ever received",
        "silent": "No live line for 35 minutes; the limit is 10 minutes",
    }.items()
}
NOTHING: Answer[Any] = Answer([])
NO_ANSWER = "ClickHouse does not answer on 127.0.0.1:1."
ALL_CLEAR = ("No data-quality events: no known data loss", "No open incidents")


def component(name: str, note: str = "") -> ComponentHealth:
    return ComponentHealth(name, not note, "running", 7, 100, 60, note)


def health(*notes: str, messages: int = 1000) -> Health:
    topics = [
        TopicHealth("esxi.syslog", messages, 3.0, {"clickhouse-records": 20, "detect": 12_000}),
        TopicHealth("esxi.esxtop", 5, 1.0, {"clickhouse-samples": 0, "detect": 1}),
    ]
    return Health(None, [component("kafka"), *(component("clickhouse", n) for n in notes)], topics)


def view(**answers: Any) -> View:
    known: dict[str, Any] = {
        "now": NOW,
        "incidents": Answer([INCIDENT]),
        "events": Answer(
            [
                Event(
                    "events.stun",
                    1,
                    {
                        "event_id": "a",
                        "datastore": "ds-gold",
                        "vm": "sql\x1b[2J01",
                        "ended_at": "2026-03-01T02:29:00.000000Z",
                        "duration_us": 4_233_332,
                        "cause": "snapshot_remove",
                        "severity": "warning",
                    },
                ),
                Event("events.incident", 0, {"event_id": "b", **INCIDENT}),
            ]
        ),
        "flow": Answer(Flow(health(), {"esxi.syslog": 1234.5, "events.stun": 0.5})),
        "newest_line": Answer(LINES["ok"]),
        "hidden_incidents": Answer(0),
        "blind_spots": Answer(
            [
                {"kind": "silent_source", "host": "esx07", "source": "syslog", "count": 1500},
                {"kind": "log_throttled", "host": "esx02", "source": "vmware_log", "count": 3},
            ]
        ),
    }
    return View(**{**known, **answers})


def shown(what: View, height: int = 40) -> str:
    console = Console(file=io.StringIO(), width=150, height=height, color_system=None)
    console.print(frame(what, height), height=height)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_frame_shows_all_results() -> None:
    text = shown(view())
    for said in (
        "2026-03-01 02:30:00 UTC",
        "Newest live line 3 seconds ago",
        "kafka ✓",
        "critical",
        "20 min",
        "1f0a3a51",
        "array or fabric, confidence high, 9 of 12 hosts",
        # Text from logs and verdicts is not parsed as markup.
        "DAVG above 1 000 ms on 6 LUNs [red]from[/] 9 hosts.",
        "ds-gold/sql␛[2J01",
        "4.233332 s",
        "1,234.5",
        "12,001",
        "silent source",
        "esx07 syslog",
        "25 min",
        "log throttled",
    ):
        assert said in text, said
    assert "\x1b" not in text


def test_only_the_verdict_of_a_long_row_is_cut() -> None:
    text = shown(view(incidents=Answer([INCIDENT | {"verdict": "DAVG above 1 000 ms. " * 20}])))
    for said in ("critical", "20 min", "1f0a3a51", "DAVG above 1 000 ms. DAVG", "…"):
        assert said in text, said


@pytest.mark.parametrize("height", [10, 24, 40, 100])
def test_a_frame_fits_its_terminal(height: int) -> None:
    many = [{**INCIDENT, "incident_id": f"{number:08x}"} for number in range(50)]
    text = shown(view(incidents=Answer(many)), height)
    assert len(text.splitlines()) == height
    assert "critical" in text


def test_if_a_component_is_down_the_error_is_shown_and_the_rest_stays() -> None:
    trouble = "ClickHouse does not answer on 127.0.0.1:1; `stunwatch status` tells what runs."
    text = shown(
        view(
            incidents=Answer([INCIDENT], trouble),
            blind_spots=Answer(None, trouble),
            flow=Answer(Flow(health("nothing listens on 127.0.0.1:1"), {})),
        )
    )
    assert "ClickHouse does not answer" in text
    assert "clickhouse ✗ nothing listens" in text
    assert "1f0a3a51" in text
    assert "ds-gold/sql" in text


def test_before_the_first_result_no_panel_claims_to_be_empty() -> None:
    unknown: Answer[Any] = Answer()
    nothing = {name: unknown for name, each in vars(view()).items() if isinstance(each, Answer)}
    text = shown(view(**nothing))
    assert "Live lines: unknown" in text
    assert "No data yet" in text
    assert "No open incidents" not in text
    assert "No data-quality events" not in text


def test_empty_panels_say_what_empty_means() -> None:
    nothing: Answer[Any] = Answer([])
    text = shown(view(incidents=nothing, events=nothing, blind_spots=nothing))
    assert all(words in text for words in ALL_CLEAR)


@pytest.mark.parametrize("state", [*LINES, "a new state"])
@pytest.mark.parametrize("trouble", ["", NO_ANSWER])
def test_no_all_clear_unless_live_lines_are_known_to_arrive(state: str, trouble: str) -> None:
    row = LINES.get(state, {**LINES["ok"], "state": state})
    quiet = view(
        incidents=NOTHING, events=NOTHING, blind_spots=NOTHING, newest_line=Answer(row, trouble)
    )
    text = shown(quiet)
    assert row["message"] in text or trouble in text
    may_be_clear = state in ("ok", "few_hosts", "replayed_only") and not trouble
    assert [words in text for words in ALL_CLEAR] == [may_be_clear, may_be_clear]
    assert (quiet.live_lines.style == "bold red") is not may_be_clear


def test_no_all_clear_before_the_age_of_the_newest_line_is_known() -> None:
    text = shown(view(incidents=NOTHING, blind_spots=NOTHING, newest_line=Answer()))
    assert not any(words in text for words in ALL_CLEAR)
    assert "Live lines: unknown" in text


def test_no_all_clear_while_the_query_of_data_quality_fails() -> None:
    assert ALL_CLEAR[0] not in shown(view(blind_spots=Answer([], NO_ANSWER)))


def test_the_silent_pipeline_is_the_first_data_quality_event() -> None:
    rows = [
        {"kind": "no_live_lines", "host": "", "source": "", "since": "2026-03-01", "count": 2100},
        {"kind": "silent_source", "host": "esx07", "source": "syslog", "count": 9000},
    ]
    text = shown(view(blind_spots=Answer(rows), newest_line=Answer(LINES["silent"])))
    assert "no live lines" in text
    assert "35 min" in text
    never = {**rows[0], "since": None, "count": 0}
    assert "never any" in shown(view(blind_spots=Answer([never])))


@pytest.mark.parametrize("incidents", [[], [INCIDENT]])
def test_hidden_incidents_of_replays_are_counted(incidents: list[Any]) -> None:
    words = "open incidents of replays not shown: stunwatch watch --history"
    text = shown(view(incidents=Answer(incidents), hidden_incidents=Answer(1200)))
    assert f"1,200 {words}" in text
    assert "replays not shown" not in shown(view(incidents=Answer(incidents)))


@pytest.mark.parametrize(
    ("unread", "stopped", "words"),
    [
        (5_000, None, "Kafka holds 5,000 live messages that ClickHouse has not stored."),
        (0, "Intake is stopped: the disk is full.", "Intake is stopped: the disk is full."),
        (3, None, "Check the hosts, the relay, Fluent Bit and the collectors."),
    ],
)
def test_a_silent_pipeline_names_where_to_look(
    unread: int, stopped: str | None, words: str
) -> None:
    topics = [
        TopicHealth("esxi.syslog", 9_999, 0.0, {"clickhouse-records": unread, "detect": 7_000}),
        TopicHealth("esxi.backfill", 9_999, 0.0, {"clickhouse-records": 8_000}),
    ]
    found = live_lines(LINES["silent"], "", Health(stopped, [], topics))
    assert found.sentence == f"{LINES['silent']['message']}. {words}"


def test_replayed_logs_only_are_not_enough_where_a_collector_runs() -> None:
    row = LINES["replayed_only"]
    assert live_lines(row, "", Health(None, [component("kafka")], [])).style == "yellow"
    found = live_lines(row, "", Health(None, [component("collect-vmlogs")], []))
    assert (found.state, found.style) == ("never", "bold red")


@pytest.mark.parametrize(
    ("state", "is_healthy"),
    [
        *(("ok", True), ("few_hosts", True), ("replayed_only", True), ("never", True)),
        *(("silent", False), ("unknown", False)),
    ],
)
def test_status_is_unhealthy_if_live_lines_have_stopped(state: str, is_healthy: bool) -> None:
    found = Health(None, [component("kafka")], [], live_lines=LiveLines(state, "words"))
    assert found.is_healthy is is_healthy
    told = found.as_json()["live_lines"]
    assert told["state"] == state
    assert told["is_missing"] is (state in ("never", "silent", "unknown"))


def test_a_poll_goes_on_after_any_error() -> None:
    answers = [TypeError("a tombstone"), "again"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    poll = Poll(ask, 1)
    poll.once()
    assert poll.latest.trouble == "TypeError: a tombstone"
    poll.once()
    assert poll.latest == Answer("again")


def test_a_failed_poll_keeps_the_last_result_and_shows_the_error() -> None:
    answers: list[Any] = ["first", UserError("It is away."), OSError("gone"), "again"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    poll = Poll(ask, 1)
    seen = []
    for _ in range(4):
        poll.once()
        seen.append((poll.latest.value, poll.latest.trouble))
    assert seen == [("first", ""), ("first", "It is away."), ("first", "gone"), ("again", "")]


def test_rates_are_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 100.0, "messages": 1000}
    monkeypatch.setattr(polls, "examine", lambda _: health(messages=clock["messages"]))
    monkeypatch.setattr(polls.time, "monotonic", lambda: clock["now"])
    meter = FlowMeter(None)  # type: ignore[arg-type]
    assert meter.measure().per_second["esxi.syslog"] == 3.0
    for _ in range(40):
        clock["now"] += 2
        clock["messages"] += 100
        flow = meter.measure()
    assert flow.per_second["esxi.syslog"] == pytest.approx(50)
    # Messages older than a minute no longer count.
    for _ in range(40):
        clock["now"] += 2
        flow = meter.measure()
    assert flow.per_second["esxi.syslog"] == 0


def test_lag_is_summed_by_consumer_group() -> None:
    assert lag_by_reader(health()) == {
        "clickhouse-records": 20,
        "clickhouse-samples": 0,
        "detect": 12_001,
    }


@pytest.mark.parametrize(
    ("seconds", "words"), [(-5, "0 s"), (59, "59 s"), (61, "1 min"), (11_100, "3 h 05")]
)
def test_an_age_is_short(seconds: int, words: str) -> None:
    assert age(timedelta(seconds=seconds)) == words


def test_every_source_shown_is_a_topic() -> None:
    from stunwatch.local.kafka import wanted_topics  # noqa: PLC0415

    assert set(screen.SOURCES) <= set(wanted_topics())
