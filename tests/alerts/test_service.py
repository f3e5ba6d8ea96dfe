"""The desk: what is read is in the book, and what is in the book survives."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import gaierror

import orjson
import pytest

from stunwatch.alerts import service
from stunwatch.alerts.book import Book
from stunwatch.alerts.configuration import Configuration, Receiver, parse
from stunwatch.alerts.marks import Marks, Mute, read_marks
from stunwatch.alerts.messages import Message
from stunwatch.alerts.sending import alerts_of, send
from stunwatch.alerts.service import Desk, MarksReader, read_book
from stunwatch.errors import UserError
from stunwatch.settings import Settings, load_settings
from tests.alerts.made_incidents import closed, incident

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = replace(load_settings({}), home=tmp_path, alerts=tmp_path / "alerts.yaml")
    made.make_folders()
    return made


def configuration() -> Configuration:
    return parse({"receivers": [{"name": "hook", "url": "json://127.0.0.1:9/"}]}, {})


class Inbox:
    """A receiver that refuses as often as it is told to."""

    def __init__(self, refuse: int = 0) -> None:
        self.refuse = refuse
        self.titles: list[str] = []

    def __call__(self, receiver: Receiver, message: Message) -> str:
        if self.refuse:
            self.refuse -= 1
            return "it is down"
        self.titles.append(message.title)
        return ""


def test_what_was_read_is_delivered_after_a_crash(settings: Settings) -> None:
    desk = Desk(settings, Book(), configuration(), Inbox(refuse=9))
    desk.take([(0, 4, orjson.dumps(incident("a"))), (1, 0, orjson.dumps(incident("b")))], NOON)
    desk.deliver(NOON)
    book = read_book(settings)
    assert book is not None
    assert book.offsets == {0: 5, 1: 1}
    inbox = Inbox()
    again = Desk(settings, book, configuration(), inbox)
    # Kafka may hand out again what was read before the crash.
    again.take([(0, 4, orjson.dumps(incident("a")))], NOON)
    for minute in range(10):
        again.deliver(NOON + timedelta(minutes=minute))
    assert sorted(inbox.titles) == [
        "[critical] Host a loses its storage",
        "[critical] Host b loses its storage",
    ]


def test_what_is_no_incident_is_passed_over_and_told(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox = Inbox()
    desk = Desk(settings, Book(), configuration(), inbox)
    values = [b"{", b"null", b"[]", b'{"run_id": "live"}', orjson.dumps(incident("a"))]
    desk.take([(0, offset, value) for offset, value in enumerate(values)], NOON)
    desk.deliver(NOON)
    assert len(inbox.titles) == 1
    assert capsys.readouterr().out.count("is no incident") == 4


def test_two_services_do_not_share_a_book(settings: Settings) -> None:
    with pytest.raises(UserError, match="runs already"):
        service._lock(settings)
        service.run(settings)


def test_a_failure_is_one_sentence_without_the_url() -> None:
    receiver = Receiver("hook", "json://sesame:open@127.0.0.1:9/token123?x=secret")
    message = Message("title", "body", "opened", "critical", "id", "host", "", "", "", "")
    said = send(receiver, message)
    assert said
    for secret in ("sesame", "open@", "token123", "secret"):
        assert secret not in said


def test_alertmanager_hears_of_the_end_of_what_is_withdrawn() -> None:
    book = Book()
    to = parse({"receivers": [{"name": "am", "kind": "alertmanager", "url": "http://x"}]}, {})
    for event in (incident(), incident(revision=2, is_deleted=1), closed("other", 3)):
        book.take(event, to, NOON)
    opened, withdrawn, over = (alerts_of(each.message, NOON)[0] for each in book.outbox)
    assert opened["endsAt"] > "2026-03-30"
    assert withdrawn["labels"] == opened["labels"]
    assert withdrawn["endsAt"] == "2026-03-01T12:00:00Z"
    assert over["endsAt"] == "2026-03-01T02:12:00.000000Z"


def test_what_is_muted_is_told_once_whenever_the_service_is_killed(settings: Settings) -> None:
    """A new desk for every step: what is saved is all that is known."""
    marks = Marks((Mute("esx01", "", "", (NOON + timedelta(hours=1)).timestamp()),))
    inbox = Inbox(refuse=1)

    def desk() -> Desk:
        return Desk(settings, read_book(settings) or Book(), configuration(), inbox)

    desk().take([(0, 0, orjson.dumps(incident("a")))], NOON, marks)
    for minute in (10, 59, 60, 61, 70):
        now = NOON + timedelta(minutes=minute)
        desk().end_mutes(now, marks)
        # Kafka hands out again what was read.
        desk().take([(0, 0, orjson.dumps(incident("a")))], now, Marks())
        desk().deliver(now)
        assert len(inbox.titles) == (minute > 60)
    desk().take([(0, 1, orjson.dumps(closed("a")))], now, marks)
    desk().deliver(now)
    desk().deliver(now)
    assert inbox.titles == [
        "[critical] Host a loses its storage",
        "[critical] over: Host a loses its storage",
    ]


def test_when_marks_cannot_be_known_that_is_said_once(
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
    assert said.count("ClickHouse is away. Nothing is held back for them.") == 2
    assert said.count("acknowledgements are known\n") == 1
    # At the start it is waited for, but not for ever.
    monkeypatch.setattr(service, "WAITS_FOR_MARKS_S", 0.0)
    assert MarksReader(read).is_ready


@pytest.mark.parametrize("error", [ConnectionRefusedError(), TimeoutError(), gaierror(-2, "name")])
def test_clickhouse_that_is_away_is_a_sentence(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    with pytest.raises(UserError, match="no local pipeline"):
        read_marks(settings)
    settings.secrets.mkdir()
    (settings.secrets / "reader").write_text("secret\n")

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("http.client.HTTPConnection.connect", refuse)
    with pytest.raises(UserError, match="ClickHouse does not answer"):
        read_marks(settings)
