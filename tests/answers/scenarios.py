"""The scenarios in which queries are compared: cases of other tests, and simulated nights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import yaml

from stunwatch.engine.correlating import LIVE_EVERY_US
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC
from stunwatch.simulation.scenarios import ScenarioSimulation, write
from stunwatch.triage.finding import VIEWS
from tests.clickhouse_server import Server, insertion
from tests.documentation.stored_history import store
from tests.incidents import scenario
from tests.investigations import test_investigations

QUICK = ("array_beside_a_storm", "before_and_after_change", "not_heard_of")
"""Scenarios of the integration tier: an incident, changes, and inventory."""

INCIDENTS = (
    "array_beside_a_storm",
    "bad_host_stuns_its_vms",
    "nightly_backup_that_got_worse",
    "one_slow_lun",
    "stuck_reservation_with_inventory",
    "storm_without_inventory",
)
"""Cases of tests/incidents/cases, which contain events."""

ROWS = (
    "before_and_after_change",
    "consolidations_that_do_not_converge",
    "hosts_that_count_down",
    "not_heard_of",
    "snapshots_left_open",
    "sustained_latency",
)
"""Cases of tests/investigations/cases, which contain rows of tables."""

SIMULATED = ("array_and_storm", "pool_full", "fixed_path_policy")
"""Scenarios of stunwatch.simulation.scenarios."""

SEED = 41
CHATTER = 0.05


def fill(server: Server, name: str, folder: Path) -> None:
    """Empty the server and store a scenario, with changes near its events."""
    server.empty()
    if name in INCIDENTS:
        _store_scenario(server, scenario.load(scenario.CASES / f"{name}.yaml"))
    elif name in ROWS:
        case = yaml.safe_load((test_investigations.CASES / f"{name}.yaml").read_text())
        test_investigations.fill(server, case)
    else:
        write(ScenarioSimulation(name, SEED, chatter=CHATTER), folder)
        store(server, folder, *(each for each in folder.iterdir() if "inventory" in each.name))
    _add_changes(server)


def _store_scenario(server: Server, case: dict[str, Any]) -> None:
    fed = sorted(scenario.events(case), key=scenario.known_us)
    tables = {topic: f"{view}_stored" for topic, view in VIEWS.items()}
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, (topic, event) in enumerate(fed):
        if topic == SEEN_TOPIC:
            continue
        if topic == INVENTORY_TOPIC:
            event |= {"event_id": str(uuid5(NAMESPACE_OID, str(number))), "revision": 1}
        rows.setdefault(tables[topic], []).append(event)
    rows["latency_windows_stored"] = list(_minutes(rows.get("latency_episodes_stored", [])))
    incidents = scenario.final_rows(fed, case["until"], LIVE_EVERY_US)
    rows["incidents_stored"] = [asdict(each) for each in incidents]
    for table, events in rows.items():
        insert(server, table, events)


def _minutes(episodes: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the first minute of each episode, with the latency of its peak."""
    for each in episodes:
        if each["metric"] == "davg" and each["origin"] == "esxtop":
            yield {
                "event_id": str(uuid5(NAMESPACE_OID, each["event_id"])),
                "revision": 1,
                "host": each["host"],
                "object_class": "scsi_device",
                "device": each["device"],
                "window_seconds": 60,
                "window_start": each["started_at"][:17] + "00Z",
                "avg_davg_ms": each["peak_ms"],
                "max_davg_ms": each["peak_ms"],
                "samples": 20,
            }


def _add_changes(server: Server) -> None:
    """Insert two changes in the middle of the stuns.

    One concerns everything, the other the datastore with the longest stun.
    """
    server.admin.command(
        "INSERT INTO changes_stored (change_id, changed_at, kind, title, datastore)"
        " SELECT generateUUIDv4(number), changed_at, 'other', concat('change ', toString(number)),"
        " if(number = 0, '', volume)"
        " FROM (SELECT quantileExact(0.5)(ended_at) AS changed_at,"
        " toString(argMax(datastore, duration_us)) AS volume"
        " FROM stuns HAVING count() > 0) AS longest"
        " CROSS JOIN numbers(2) AS two"
    )


def insert(server: Server, table: str, rows: Iterable[dict[str, Any]]) -> None:
    """Store rows; missing columns get their defaults."""
    settings = {"date_time_input_format": "best_effort"}
    for _ in server.admin.stream(insertion(table, rows), settings=settings):
        pass
