"""The demo's messages about the live scenario, with a fake clock and fake views."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from rich.text import Text

from stunwatch.demo.live import PATIENCE_S, play
from stunwatch.demo.scenario import ScenarioLine, load, stamp
from stunwatch.demo.watching import IncidentRow, LineRow, StunRow, Watching
from stunwatch.errors import UserError

STARTED_AT = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)


class World:
    """A clock that advances only in `sleep`, and views that show a line after `delay_s`."""

    name = "a test"
    log = None

    def __init__(
        self, delay_s: float = 1.0, incident_delay_s: float = 3.0, query_s: float = 0.0
    ) -> None:
        self.at = STARTED_AT
        self.query_s = timedelta(seconds=query_s)
        self.delay_s = timedelta(seconds=delay_s)
        self.incident_delay_s = timedelta(seconds=incident_delay_s)
        self.sent: list[tuple[ScenarioLine, str, datetime]] = []
        self.said: list[str] = []
        self.fails_until = STARTED_AT
        self.opened_at = STARTED_AT

    def now(self) -> datetime:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def send(self, line: ScenarioLine, text: str) -> None:
        self.sent.append((line, text, self.at))

    def say(self, text: Text | str) -> None:
        self.said.append(str(text))

    def look(self, watching: Watching) -> Iterator[Text]:
        self.at += self.query_s
        if self.at < self.fails_until:
            raise UserError("ClickHouse does not answer")
        there = [each for each in self.sent if each[2] + self.delay_s <= self.at]
        yield from watching.lines(
            [
                LineRow(view_time(at), line.vm or "demo-esx01", "vmx", text)
                for line, text, at in there
            ]
        )
        yield from watching.stuns(
            [
                StunRow(line.vm, text[:23], line.stun_us, "critical", "snapshot_remove")
                for line, text, _ in there
                if line.stun_us
            ],
            self.at,
        )
        lost = [at for _, text, at in self.sent if "Lost access" in text]
        if lost and lost[0] + self.incident_delay_s <= self.at:
            detected_at = min(lost[0], self.opened_at) if self.opened_at < STARTED_AT else lost[0]
            yield from watching.incidents(
                [
                    IncidentRow(
                        "0b6f3f0e-6f5c-5b0e-9a3e-2f6f0c1d2e3f", view_time(self.opened_at),
                        view_time(detected_at), "critical",
                        sum((line.stun_us or 0) > 1_000_000 for line, *_ in there),
                        "It is.", "Look.",
                    )
                ],
                self.at,
            )  # fmt: skip

    def play(self) -> Watching:
        return play(load(), self, self.look, self.say, self.now, self.sleep)


def view_time(at: datetime) -> str:
    return stamp(at).replace("T", " ").rstrip("Z")


def test_every_line_is_shown_once_and_every_stun_with_its_delay() -> None:
    world = World(delay_s=1)
    watching = world.play()
    assert len(world.sent) == len(load().lines)
    shown = [each for each in world.said if each.startswith("  08:00:")]
    assert len(shown) == len(load().lines)
    stuns = [each for each in world.said if "✓ stun" in each]
    assert len(stuns) == sum(each.stun_us is not None for each in load().lines)
    assert all(1 <= each < 1.5 for each in watching.delays_s.values())
    assert "13.577 s (critical, snapshot_remove): in the view 1." in stuns[-1]
    assert not watching.missing()


def test_the_incident_is_shown_once_with_its_delay() -> None:
    world = World(incident_delay_s=3)
    watching = world.play()
    [said] = [each for each in world.said if "✓ incident" in each]
    assert said.endswith(
        "0b6f3f0e (critical) opened: in the view 3.0 s after the line that opened it"
    )
    assert watching.incident is not None
    # The final row, with both stuns, is kept.
    assert watching.incident.stuns == 2


def test_events_added_to_an_earlier_incident_are_not_reported_as_new() -> None:
    world = World()
    world.opened_at = STARTED_AT - timedelta(minutes=5)
    world.play()
    [said] = [each for each in world.said if "✓ incident" in each]
    assert said.endswith("is open since 2026-11-23 07:55:00 UTC; this run belongs to it")


def test_stuns_of_an_earlier_run_are_not_counted() -> None:
    watching = Watching(load(), STARTED_AT)
    watching.stun_sent("demo-sql01", STARTED_AT, STARTED_AT)
    earlier = StunRow("demo-sql01", "2026-11-23 07:00:00.000000", 1, "normal", "unknown")
    assert list(watching.stuns([earlier], STARTED_AT)) == []
    assert watching.missing() == [
        "the stun of demo-sql01 that ended at 08:00:00.000 UTC", "the incident",
    ]  # fmt: skip


def test_the_demo_ends_with_the_last_line_if_all_is_visible() -> None:
    world = World(delay_s=0.2, incident_delay_s=0.2)
    world.play()
    assert world.at - STARTED_AT < timedelta(seconds=load().seconds + 1)
    assert len([each for each in world.said if each.startswith("  08:00:")]) == len(load().lines)
    assert not [each for each in world.said if "waiting" in each]


def test_slow_queries_do_not_change_the_times_of_the_lines() -> None:
    world = World(query_s=7)
    watching = world.play()
    assert [text for _, text, _ in world.sent] == [
        line.written(STARTED_AT + timedelta(seconds=line.at_s)) for line in load().lines
    ]
    assert watching.has_seen_all_stuns


def test_the_demo_waits_for_a_slow_pipeline_and_says_so() -> None:
    world = World(delay_s=30)
    watching = world.play()
    [said] = [each for each in world.said if "waiting up to 60 s for" in each]
    assert "the stun of demo-app01 that ended at 08:00:22" in said
    assert watching.has_seen_all_stuns
    assert watching.has_seen_incident


def test_what_is_not_visible_in_time_is_reported() -> None:
    world = World(delay_s=1000, incident_delay_s=1000)
    watching = world.play()
    waited = world.at - STARTED_AT - timedelta(seconds=load().seconds)
    assert timedelta(seconds=PATIENCE_S) <= waited < timedelta(seconds=PATIENCE_S + 1)
    assert not watching.has_seen_all_stuns
    assert not watching.has_seen_lines
    assert len(watching.missing()) == 4


def test_a_failed_query_is_repeated() -> None:
    world = World()
    world.fails_until = STARTED_AT + timedelta(seconds=20)
    assert world.play().has_seen_all_stuns


def test_an_error_of_clickhouse_that_persists_is_reported() -> None:
    world = World()
    world.fails_until = STARTED_AT + timedelta(days=1)
    assert not world.play().has_seen_all_stuns
    assert world.said[-1] == "ClickHouse does not answer"


def test_a_long_message_is_cut() -> None:
    watching = Watching(load(), STARTED_AT)
    row = LineRow("2026-11-23 08:00:01.000000", "demo-esx01", "vmkernel", "x" * 500)
    [said] = watching.lines([row])
    assert len(said.plain) < 120
    assert said.plain.endswith("…")
