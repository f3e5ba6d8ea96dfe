"""Who may do what in Kafka, held to what the code does."""

from __future__ import annotations

from detectors.catalogue import INCIDENTS_TOPIC, event_topics
from incidents.correlator import INVENTORY_TOPIC
from incidents.signals import TOPICS
from jobs.detect import HISTORY_TOPICS, LATENESS, LIVE_TOPICS
from stunwatch.runtime.principals import rights

LATE_TOPIC = "esxi.late"


def may(principal: str, operation: str) -> set[str]:
    """The topics that somebody may read or write."""
    return {
        name
        for kind, name, _, who, what in rights()
        if (kind, who, what) == ("topic", principal, operation)
    }


def test_flink_may_write_what_every_detector_tells() -> None:
    written = {*event_topics(), LATE_TOPIC}
    assert may("flink", "write") == written


def test_flink_may_read_lines_samples_and_what_makes_incidents() -> None:
    lines_and_samples = {*LIVE_TOPICS, *HISTORY_TOPICS, *LATENESS}
    assert may("flink", "read") == lines_and_samples | {*TOPICS, INVENTORY_TOPIC, INCIDENTS_TOPIC}
