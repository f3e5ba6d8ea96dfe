"""A scenario seen live and then replayed: one incident, and one alert."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition

from stunwatch.access import ADMIN, kafka_access
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.kafka import Kafka, Offsets
from tests.end_to_end import logs
from tests.end_to_end.made import sample
from tests.pipeline import Pipeline

DEVICES = ("naa.60060e80123456700000000000000e2e", "naa.60060e80123456700000000000000e2f")
HOSTS = ("eve01.evening.example", "eve02.evening.example")
STEP = timedelta(seconds=10)
ROWS = (
    "SELECT incident_id, state, scope, toString(opened_at), toString(closed_at),"
    " toString(detected_at), hosts, devices, peak_davg_ms, reporting_hosts, run_id"
    " FROM incidents WHERE hasAny(hosts, ['eve01.evening.example']) ORDER BY opened_at"
)


def davg_ms(number: int) -> float:
    """Return the DAVG: the middle ten of twenty minutes are slow."""
    return 600.0 if 30 <= number < 90 else 4.0


def live_samples(start: datetime) -> list[dict[str, Any]]:
    """Return the samples in the order of sending, all hosts in parallel."""
    return [
        sample(host, device, start + number * STEP, davg_ms(number), run_id="live", kavg_ms=0.02)
        for number in range(121)
        for host in HOSTS
        for device in DEVICES
    ]


def told_since(pipeline: Pipeline, before: Offsets) -> Iterator[dict[str, Any]]:
    """Yield the messages of topics from these offsets to the end."""
    ends = Kafka(kafka_access(pipeline.settings, ADMIN)).ends({topic for topic, _ in before})
    options = {"group.id": "a test", "enable.auto.commit": False}
    consumer = Consumer({**kafka_access(pipeline.settings, ADMIN), **options})
    consumer.assign([TopicPartition(*each, offset) for each, offset in before.items()])
    for _ in range(sum(ends.values()) - sum(before.values())):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        yield orjson.loads(message.value())
    consumer.close()


@pytest.mark.slow
def test_a_scenario_live_and_replayed_is_one_incident(pipeline: Pipeline, tmp_path: Path) -> None:
    # The slow ten minutes ended four minutes before the newest full ten minutes of the clock. The
    # first sample after these sets the clock of the fleet (docs/decisions/0026).
    now = datetime.now(UTC) - timedelta(minutes=1)
    start = now.replace(minute=now.minute // 10 * 10, second=0, microsecond=0) - timedelta(
        minutes=19
    )
    pipeline.ship("esxi.esxtop", *live_samples(start))
    pipeline.wait_for(
        "SELECT count() FROM incidents"
        " WHERE state = 'closed' AND has(hosts, 'eve01.evening.example')"
        # One event per device and host. The row is written again when the last one arrives later.
        " AND length(evidence_ids) = 4",
        1,
        seconds=240,
    )
    [live] = pipeline.rows(ROWS)
    slow_from, slow_to = start + 30 * STEP, start + 89 * STEP
    assert live[1:7] == (
        *("closed", "array_or_fabric"),
        f"{slow_from:%Y-%m-%d %H:%M:%S}.000000",
        f"{slow_to:%Y-%m-%d %H:%M:%S}.000000",
        f"{slow_from + timedelta(minutes=1):%Y-%m-%d %H:%M:%S}.000",
        list(HOSTS),
    )
    assert live[7:9] == (list(DEVICES), 600.0)
    assert live[10] == "live"

    for host in HOSTS:
        folder = tmp_path / host
        folder.mkdir()
        logs.write_csv(
            folder / "esxtop.csv",
            {device: [davg_ms(number) for number in range(121)] for device in DEVICES},
            STEP.seconds,
            host=host,
            start=start,
        )
    before = Kafka(kafka_access(pipeline.settings, ADMIN)).ends([INCIDENTS_TOPIC])
    pipeline.run("replay", tmp_path)
    # The same facts give the same row: nothing is written again.
    told = [each for each in told_since(pipeline, before) if HOSTS[0] in each["hosts"]]
    assert told == []
    assert pipeline.rows(ROWS) == [live]
