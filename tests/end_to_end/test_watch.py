"""The live view over a real pipeline, one frame of it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import orjson
import pytest

from tests.alerts.made_incidents import incident
from tests.end_to_end.conftest import Pipeline
from tests.end_to_end.made import DAY, stamp, store, stun

# The pipeline makes its rows up: no line tells them.
pytestmark = pytest.mark.made_up


def test_one_frame_shows_incidents_events_and_lag(pipeline: Pipeline) -> None:
    now = datetime.now(UTC)
    # Later than all that earlier tests left open, so that it stands above them.
    told = incident(f"watched {uuid4()}", run_id="made", opened_at=stamp(now + DAY))
    pipeline.produce("events.incident", orjson.dumps(told), key=told["event_id"])
    pipeline.wait_for(f"SELECT count() FROM incidents WHERE incident_id = '{told['event_id']}'", 1)
    store(pipeline, [stun("esx41", "ds-41", "watched41", now, 4.233332)])
    text = pipeline.run("watch", "--once", "--history").stdout
    for said in (
        told["severity"],
        told["event_id"][:8],
        "ds-41/watched41",
        "4.233332 s",
        "kafka ✓",
        "syslog",
        "clickhouse-events",
    ):
        assert said in text, text
    for said in ("not known", "does not answer", "Exception"):
        assert said not in text
    assert "ds-41/watched41" not in pipeline.run("watch", "--once").stdout
