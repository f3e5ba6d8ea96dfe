"""`stunwatch watch`: the fleet, live in the terminal."""

from __future__ import annotations

import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Annotated

import orjson
import typer
from confluent_kafka import Consumer
from rich.console import Console
from rich.live import Live

from detectors.catalogue import WINDOWS_TOPIC, event_topics
from stunwatch.access import kafka_access
from stunwatch.kafka import Kafka
from stunwatch.live_view.polls import Polls
from stunwatch.live_view.screen import View, describe, frame
from stunwatch.settings import Settings, load_settings

REFRESH_SECONDS = 1.0
WIDTH, HEIGHT = 160, 44
"""Of one frame that goes to no terminal."""


def watch(
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Also what replays find, not only what is live.")
    ] = False,
    most: Annotated[
        int | None, typer.Option("--most", "-n", help="End after so many events, one a line.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Show the screen as it is now, and end.")
    ] = False,
) -> None:
    """Show what goes on, until Ctrl-C: incidents, events, rates, lag, blind spots.

    Without a terminal, and with --json or --most, it prints events as they are found, one a line.

    Examples:

        stunwatch watch

        stunwatch watch --once

        stunwatch watch --json | jq .vm
    """
    settings = load_settings()
    if once:
        polls = Polls(settings, history)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: each.once(), polls.each()))
        console = Console() if sys.stdout.isatty() else Console(width=WIDTH, height=HEIGHT)
        console.print(frame(_view(polls), console.height), height=console.height)
    elif sys.stdout.isatty() and not json and most is None:
        _show(settings, history)
    else:
        _print_lines(settings, json, history, most)


def _show(settings: Settings, history: bool) -> None:
    """Fill the terminal, a frame a second, whatever answers."""
    polls = Polls(settings, history)
    for each in polls.each():
        each.start()
    console = Console()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(frame(_view(polls), console.height), refresh=True)
                time.sleep(REFRESH_SECONDS)
    except KeyboardInterrupt:
        pass


def _view(polls: Polls) -> View:
    return View(
        now=datetime.now(UTC),
        incidents=polls.incidents.latest,
        events=polls.events.latest,
        flow=polls.flow.latest,
        blind_spots=polls.blind_spots.latest,
    )


def _print_lines(settings: Settings, json: bool, history: bool, most: int | None) -> None:
    """One line an event, from now on."""
    console = Console(highlight=False)
    access = kafka_access(settings, "replay")
    consumer = Consumer(
        access
        | {
            # A group of its own, never committed: every watcher sees every event.
            "group.id": f"stunwatch-watch-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "log_level": 0,
        }
    )
    Kafka(access, patience_seconds=5).partitions([])
    # Windows come every minute of every device: they are for charts.
    consumer.subscribe(sorted({*event_topics()} - {WINDOWS_TOPIC}))
    shown = 0
    try:
        while most is None or shown < most:
            message = consumer.poll(0.5)
            if message is None or message.error():
                continue
            event = orjson.loads(message.value())
            if not history and event.get("run_id") != "live":
                continue
            shown += 1
            if json:
                typer.echo(message.value().decode())
            else:
                console.print(describe(message.topic(), event))
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()
