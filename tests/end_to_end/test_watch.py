"""One frame of the live view over a real pipeline."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import orjson
import pytest

from tests.alerts.made_incidents import incident
from tests.end_to_end.made import DAY, stamp, store, stun
from tests.pipeline import Pipeline

# The rows of this pipeline are made up, without log lines.
pytestmark = pytest.mark.made_up


def test_one_frame_shows_incidents_events_and_lag(pipeline: Pipeline) -> None:
    now = datetime.now(UTC)
    # Later than incidents that other tests left open, so that it is listed first.
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
    for said in ("No data", "does not answer", "Exception"):
        assert said not in text
    assert "ds-41/watched41" not in pipeline.run("watch", "--once").stdout
