"""The live view's frame from given answers, and polls whose questions fail."""

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
from stunwatch.runtime.health import ComponentHealth, Health, TopicHealth

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


def test_a_frame_tells_what_goes_on() -> None:
    text = shown(view())
    for said in (
        "2026-03-01 02:30:00 UTC",
        "kafka ✓",
        "critical",
        "20 min",
        "1f0a3a51",
        "array or fabric, confidence high, 9 of 12 hosts",
        # What logs and verdicts say is no markup.
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


def test_a_long_verdict_is_cut_and_nothing_beside_it() -> None:
    text = shown(view(incidents=Answer([INCIDENT | {"verdict": "DAVG above 1 000 ms. " * 20}])))
    for said in ("critical", "20 min", "1f0a3a51", "DAVG above 1 000 ms. DAVG", "…"):
        assert said in text, said


@pytest.mark.parametrize("height", [10, 24, 40, 100])
def test_a_frame_fits_its_terminal(height: int) -> None:
    many = [{**INCIDENT, "incident_id": f"{number:08x}"} for number in range(50)]
    text = shown(view(incidents=Answer(many)), height)
    assert len(text.splitlines()) == height
    assert "critical" in text


def test_a_component_that_is_down_is_said_and_the_rest_stays() -> None:
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


def test_before_the_first_answer_nothing_is_claimed() -> None:
    unknown: Answer[Any] = Answer()
    text = shown(view(incidents=unknown, events=unknown, flow=unknown, blind_spots=unknown))
    assert "not known yet" in text
    assert "none" not in text


def test_nothing_going_on_looks_so() -> None:
    nothing: Answer[Any] = Answer([])
    text = shown(view(incidents=nothing, events=nothing, blind_spots=nothing))
    assert "none: every source is heard" in text


def test_a_poll_keeps_what_it_knew_and_says_what_is_wrong() -> None:
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


def test_rates_compare_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
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
    # What was a minute ago counts no longer.
    for _ in range(40):
        clock["now"] += 2
        flow = meter.measure()
    assert flow.per_second["esxi.syslog"] == 0


def test_lag_is_summed_by_reader() -> None:
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


def test_every_source_that_is_shown_is_a_topic() -> None:
    from stunwatch.runtime.kafka import wanted_topics  # noqa: PLC0415

    assert set(screen.SOURCES) <= set(wanted_topics())
