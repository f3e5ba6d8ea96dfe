"""The dispatcher: events that were read are in the alert state, and the state survives crashes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import gaierror

import orjson
import pytest

from stunwatch.alerts import service
from stunwatch.alerts.alert_state import AlertState
from stunwatch.alerts.configuration import Configuration, Receiver, parse
from stunwatch.alerts.marks import Marks, Mute, read_marks
from stunwatch.alerts.messages import Message
from stunwatch.alerts.sending import alerts_of, send
from stunwatch.alerts.service import Dispatcher, MarksReader, read_state
from stunwatch.errors import UserError
from stunwatch.settings import Settings, load_settings
from tests.alerts.made_incidents import closed, incident

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WRITTEN = datetime(2026, 3, 1, 2, 2, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = replace(load_settings({}), home=tmp_path, alerts=tmp_path / "alerts.yaml")
    made.make_folders()
    return made


def configuration() -> Configuration:
    return parse({"receivers": [{"name": "hook", "url": "json://127.0.0.1:9/"}]}, {})


class Inbox:
    """A receiver that rejects a given number of messages."""

    def __init__(self, refuse: int = 0) -> None:
        self.refuse = refuse
        self.titles: list[str] = []

    def __call__(self, receiver: Receiver, message: Message) -> str:
        if self.refuse:
            self.refuse -= 1
            return "it is down"
        self.titles.append(message.title)
        return ""


def test_events_read_before_a_crash_are_delivered_once_after_it(settings: Settings) -> None:
    dispatcher = Dispatcher(settings, AlertState(), configuration(), Inbox(refuse=9))
    dispatcher.take(
        [
            (0, 4, orjson.dumps(incident("a")), WRITTEN),
            (1, 0, orjson.dumps(incident("b")), WRITTEN),
        ],
        NOON,
    )
    dispatcher.deliver(NOON)
    alert_state = read_state(settings)
    assert alert_state is not None
    assert alert_state.offsets == {0: 5, 1: 1}
    inbox = Inbox()
    again = Dispatcher(settings, alert_state, configuration(), inbox)
    # After a crash, Kafka may deliver the same messages again.
    again.take([(0, 4, orjson.dumps(incident("a")), WRITTEN)], NOON)
    for minute in range(10):
        again.deliver(NOON + timedelta(minutes=minute))
    assert sorted(inbox.titles) == [
        "[critical] Host a loses its storage",
        "[critical] Host b loses its storage",
    ]


def test_an_event_that_is_not_an_incident_is_skipped_and_logged(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox = Inbox()
    dispatcher = Dispatcher(settings, AlertState(), configuration(), inbox)
    values = [b"{", b"null", b"[]", b'{"run_id": "live"}', orjson.dumps(incident("a"))]
    dispatcher.take([(0, offset, value, WRITTEN) for offset, value in enumerate(values)], NOON)
    dispatcher.deliver(NOON)
    assert len(inbox.titles) == 1
    assert capsys.readouterr().out.count("is not an incident") == 4


def test_two_services_cannot_share_the_alert_state(settings: Settings) -> None:
    with pytest.raises(UserError, match="already running"):
        service._lock(settings)
        service.run(settings)


def test_the_error_of_a_delivery_does_not_contain_the_url() -> None:
    receiver = Receiver(name="hook", url="json://sesame:open@127.0.0.1:9/token123?x=secret")
    message = Message("title", "body", "opened", "critical", "id", "host", "", "", "", "")
    said = send(receiver, message)
    assert said
    for secret in ("sesame", "open@", "token123", "secret"):
        assert secret not in said


def test_alertmanager_receives_an_end_time_for_a_withdrawn_incident() -> None:
    alert_state = AlertState()
    to = parse({"receivers": [{"name": "am", "kind": "alertmanager", "url": "http://x"}]}, {})
    for event in (incident(), incident(revision=2, is_deleted=1), closed("other", 3)):
        alert_state.take(event, to, NOON)
    opened, withdrawn, over = (alerts_of(each.message, NOON)[0] for each in alert_state.outbox)
    assert opened["endsAt"] > "2026-03-30"
    assert withdrawn["labels"] == opened["labels"]
    assert withdrawn["endsAt"] == "2026-03-01T12:00:00Z"
    assert over["endsAt"] == "2026-03-01T02:12:00.000000Z"


def test_a_muted_incident_is_sent_once_despite_restarts(settings: Settings) -> None:
    """Every step uses a new dispatcher, so only the saved state is known."""
    marks = Marks((Mute("esx01", "", "", (NOON + timedelta(hours=1)).timestamp()),))
    inbox = Inbox(refuse=1)

    def dispatcher() -> Dispatcher:
        return Dispatcher(settings, read_state(settings) or AlertState(), configuration(), inbox)

    dispatcher().take([(0, 0, orjson.dumps(incident("a")), WRITTEN)], NOON, marks)
    for minute in (10, 59, 60, 61, 70):
        now = NOON + timedelta(minutes=minute)
        dispatcher().end_mutes(now, marks)
        # Kafka delivers the same messages again.
        dispatcher().take([(0, 0, orjson.dumps(incident("a")), WRITTEN)], now, Marks())
        dispatcher().deliver(now)
        assert len(inbox.titles) == (minute > 60)
    dispatcher().take([(0, 1, orjson.dumps(closed("a")), WRITTEN)], now, marks)
    dispatcher().deliver(now)
    dispatcher().deliver(now)
    assert inbox.titles == [
        "[critical] Host a loses its storage",
        "[critical] closed: Host a loses its storage",
    ]


def test_unknown_mutes_are_logged_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Marks | None] = [None, None, Marks(), None]

    def read() -> Marks:
        if (answer := answers.pop(0)) is None:
            raise UserError("ClickHouse is away.")
        return answer

    reader = MarksReader(read)
    assert reader.is_due
    assert not reader.is_ready
    assert (reader.read(), reader.read()) == (None, None)
    assert not reader.is_due
    assert not reader.is_ready
    assert reader.read() == Marks()
    assert reader.is_ready
    assert reader.problem == ""
    assert reader.read() is None
    said = capsys.readouterr().out
    assert said.count("ClickHouse is away. All messages are sent.") == 2
    assert said.count("mutes are loaded\n") == 1
    # The service waits for them at the start, but not for ever.
    monkeypatch.setattr(service, "WAITS_FOR_MARKS_S", 0.0)
    assert MarksReader(read).is_ready


@pytest.mark.parametrize("error", [ConnectionRefusedError(), TimeoutError(), gaierror(-2, "name")])
def test_clickhouse_that_does_not_answer_is_a_user_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    with pytest.raises(UserError, match="No pipeline has been started"):
        read_marks(settings)
    settings.secrets.mkdir()
    (settings.secrets / "reader").write_text("secret\n")

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("http.client.HTTPConnection.connect", refuse)
    with pytest.raises(UserError, match=r"Cannot reach ClickHouse|did not answer"):
        read_marks(settings)
