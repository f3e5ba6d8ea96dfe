"""The live part of the demo: sends the scenario line by line and shows the rows in the views."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from stunwatch.alerts.configuration import load as load_alerts
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.demo.scenario import Scenario, stamp
from stunwatch.demo.shippers import LineShipper, shipper
from stunwatch.demo.watching import IncidentRow, LineRow, StunRow, Watching
from stunwatch.errors import UserError
from stunwatch.incident_marks import note_mute
from stunwatch.settings import Settings

PATIENCE_S = 60.0
"""After the last line: how long to wait for rows that are not in the views yet."""

WAITS_QUIETLY_S = 8.0
"""After the last line: how long to wait before the user is told about the wait."""

_LINES_PATIENCE_S = 5.0
"""How long to wait for the last lines after all stuns and the incident are visible."""

_LOOKS_EVERY_S = 0.25
_SLEEP_S = 0.05
_MUTED_FOR = timedelta(hours=1)

_LINES = """
    SELECT event_time, if(vm != '', vm, host), program, message
    FROM log_lines
    WHERE
        run_id = 'live' AND received_at >= {since:DateTime64(3, 'UTC')} - INTERVAL 1 MINUTE
        AND event_time >= {since:DateTime64(3, 'UTC')}
        AND (
            host IN {hosts:Array(String)}
            OR (datastore = {datastore:String} AND vm IN {vms:Array(String)})
        )
    ORDER BY event_time
"""

_STUNS = """
    SELECT vm, ended_at, duration_us, severity, cause
    FROM stuns
    WHERE
        datastore = {datastore:String} AND vm IN {vms:Array(String)}
        AND ended_at >= {since:DateTime64(3, 'UTC')}
    ORDER BY ended_at
"""

# The incident must contain an event of this run. An incident opened by an earlier run may.
_INCIDENTS = """
    WITH
        (
            SELECT groupArray(event_id)
            FROM stuns
            WHERE
                datastore = {datastore:String} AND vm IN {vms:Array(String)}
                AND ended_at >= {since:DateTime64(3, 'UTC')}
        ) AS own_stuns,
        (
            SELECT groupArray(event_id)
            FROM path_events
            WHERE
                datastore = {datastore:String} AND host IN {hosts:Array(String)}
                AND started_at >= {since:DateTime64(3, 'UTC')}
        ) AS own_losses
    SELECT
        incident_id, opened_at, detected_at, severity,
        arrayCount(each -> has(own_stuns, each), evidence_ids) AS stuns,
        verdict, next_steps[1].step AS first_step
    FROM incidents
    WHERE has(datastores, {datastore:String}) AND (stuns OR hasAny(evidence_ids, own_losses))
    ORDER BY opened_at DESC
    LIMIT 1
"""


Say = Callable[[Text | str], None]
Look = Callable[[Watching], Iterator[Text]]
"""Queries the views, and yields rows that were not shown before."""


def run(settings: Settings, scenario: Scenario, console: Console) -> Watching:
    """Send the scenario and return what the views showed.

    Raises:
        UserError: the lines cannot be sent.
    """

    def say(text: Text | str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    if load_alerts(settings).receivers:
        names = {"host": scenario.hosts[0], "device": "", "datastore": scenario.datastore}
        note_mute(settings, names, _MUTED_FOR, "stunwatch demo")
        say(f"\nNo alerts go out for {scenario.datastore}: it is muted for an hour.")
    reader = as_user(settings, "analyst", timeout_s=10)
    with ends_as_by_ctrl_c(signal.SIGTERM), shipper(settings, scenario) as ships:
        say(
            f"\nLive: {len(scenario.vms)} VMs and {len(scenario.hosts)} hosts write for"
            f" {scenario.seconds:.0f} seconds, through {ships.name}."
        )
        say("Lines as they arrive in ClickHouse (UTC):")
        watching = play(
            scenario,
            ships,
            lambda watching: look_at_views(reader, watching),
            say,
            lambda: datetime.now(UTC),
        )
        if ships.log and not watching.has_seen_lines:
            say(f"No line arrived. See {ships.log}")
        return watching


def play(
    scenario: Scenario,
    ships: LineShipper,
    look: Look,
    say: Say,
    now: Callable[[], datetime],
    sleep: Callable[[float], None] = time.sleep,
) -> Watching:
    """Send each line with its planned time, and query the views.

    It ends when all is visible, or PATIENCE_S after the last line.
    """
    started_at = now()
    watching = Watching(scenario, started_at)
    waiting = deque(scenario.lines)
    looked_at = last_sent_at = started_at
    has_said_that_it_waits = False
    problem = ""
    while True:
        while waiting and now() >= started_at + timedelta(seconds=waiting[0].at_s):
            line = waiting.popleft()
            last_sent_at = now()
            # A slow query may delay the sending, but not change the time between two lines: the
            # two lines of one stun would become two stuns.
            written_at = started_at + timedelta(seconds=line.at_s)
            ships.send(line, line.written(written_at))
            if line.stun_us is not None:
                watching.stun_sent(line.vm, written_at, last_sent_at)
        if (now() - looked_at).total_seconds() >= _LOOKS_EVERY_S:
            try:
                for text in look(watching):
                    say(text)
                problem = ""
            except UserError as error:
                # ClickHouse may be slow to answer on a busy machine.
                problem = str(error)
            looked_at = now()
        if not waiting:
            waited_s = (now() - last_sent_at).total_seconds()
            is_over = watching.has_seen_all_lines or waited_s >= _LINES_PATIENCE_S
            if is_over and watching.has_seen_all_stuns and watching.has_seen_incident:
                return watching
            if waited_s >= PATIENCE_S:
                if problem:
                    say(Text(problem, style="yellow"))
                return watching
            if waited_s >= WAITS_QUIETLY_S and not has_said_that_it_waits:
                has_said_that_it_waits = True
                say(
                    f"All lines are sent. The pipeline is behind; waiting up to {PATIENCE_S:.0f} s"
                    f" for {'; '.join(watching.missing()) or 'all of the incident'}."
                )
        sleep(_SLEEP_S)


def look_at_views(reader: ClickHouse, watching: Watching) -> Iterator[Text]:
    """Yield new rows of the views. Raises UserError if ClickHouse does not answer."""
    scenario = watching.scenario
    parameters: dict[str, Any] = {
        "since": stamp(watching.started_at).rstrip("Z").replace("T", " "),
        "hosts": list(scenario.hosts),
        "datastore": scenario.datastore,
        "vms": list(scenario.vms),
    }
    yield from watching.lines([LineRow(*row) for row in reader.rows(_LINES, parameters)])
    stuns = [StunRow(*row) for row in reader.rows(_STUNS, parameters)]
    yield from watching.stuns(stuns, datetime.now(UTC))
    incidents = [IncidentRow(*row) for row in reader.rows(_INCIDENTS, parameters)]
    yield from watching.incidents(incidents, datetime.now(UTC))


@contextmanager
def ends_as_by_ctrl_c(number: signal.Signals) -> Iterator[None]:
    """Convert a signal to KeyboardInterrupt, so that started processes are stopped."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)
