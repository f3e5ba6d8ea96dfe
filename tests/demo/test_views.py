"""The demo's queries on rows as Flink and Fluent Bit write them."""

from __future__ import annotations

from pathlib import Path

import orjson

from stunwatch.demo.live import look_at_views
from stunwatch.demo.scenario import load
from stunwatch.demo.watching import Watching
from stunwatch.triage.finding import VIEWS
from tests.clickhouse_server import Server
from tests.demo.test_scenario import STARTED_AT, records, write, written
from tools.score import in_memory


def test_the_views_show_every_line_every_stun_and_the_incident(
    server: Server, tmp_path: Path
) -> None:
    write(load(), tmp_path)
    found = in_memory.find(tmp_path).rows
    server.read((f"esxi.{each['source']}", orjson.dumps(each)) for each in records())
    topics = {view: topic for topic, view in VIEWS.items()} | {"incidents": "events.incident"}
    server.read(
        (topics[view], orjson.dumps({**each, "run_id": "live"}))
        for view, rows in found.items()
        for each in rows
    )
    watching = Watching(load(), STARTED_AT)
    for line, at, _ in written(load()):
        if line.stun_us:
            watching.stun_sent(line.vm, at, at)
    said = [str(each) for each in look_at_views(server.as_("analyst"), watching)]
    assert len([each for each in said if "✓ stun" in each]) == 3
    assert len([each for each in said if "✓ incident" in each]) == 1
    assert len(said) == len(load().lines) + 4
    assert watching.has_seen_all_stuns
    assert watching.has_seen_incident
    assert watching.incident is not None
    assert watching.incident.first_step
    # A second query returns nothing new.
    assert not list(look_at_views(server.as_("analyst"), watching))
