"""Consumers that have unread messages but make no progress are detected."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from stunwatch.local import keeper
from stunwatch.local.health import Health
from tests.pipeline import settings_in

STUN, PATH = ("events.stun", 0), ("events.path", 0)


def test_a_consumer_is_stuck_after_five_minutes_without_progress() -> None:
    progress, at = keeper.Progress(), {STUN: 10, PATH: 5}
    for now in (0, 100, 299):
        assert not progress.stuck({STUN: 12, PATH: 5}, {"events": at}, now)
    assert progress.stuck({STUN: 99, PATH: 5}, {"events": at}, 300) == {
        ("events", "events.stun"): 300
    }


def test_a_consumer_with_progress_or_without_messages_is_not_stuck() -> None:
    progress = keeper.Progress()
    for now in range(0, 3000, 100):
        assert not progress.stuck({STUN: now + 1, PATH: 5}, {"events": {STUN: now, PATH: 5}}, now)


def test_the_five_minutes_begin_with_the_first_unread_message() -> None:
    progress, at = keeper.Progress(), {"events": {STUN: 10}}
    assert not progress.stuck({STUN: 10}, at, 0)
    assert not progress.stuck({STUN: 11}, at, 400)
    assert not progress.stuck({STUN: 11}, at, 600)
    assert progress.stuck({STUN: 11}, at, 700)


def test_status_reports_a_stuck_consumer_while_the_keeper_checks(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.make_folders()
    assert keeper.stuck_readers(settings) == []
    path = keeper.positions(settings)
    path.write_text(json.dumps({"clickhouse-events": {"events.stun": 421.0}}))
    [sentence] = keeper.stuck_readers(settings)
    assert sentence.startswith("clickhouse-events has read nothing of events.stun for 7 minutes")
    assert not Health(None, [], [], [sentence]).is_healthy
    os.utime(path, (time.time() - 3600,) * 2)
    assert keeper.stuck_readers(settings) == []
