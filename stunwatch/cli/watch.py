"""`stunwatch watch`: shows incidents and events live in the terminal."""

from __future__ import annotations

import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from json import dumps
from typing import Annotated, Any

import typer
from rich.live import Live

from stunwatch.access import kafka_access
from stunwatch.detectors.catalogue import WINDOWS_TOPIC, event_topics
from stunwatch.found import readable
from stunwatch.kafka import Kafka
from stunwatch.live_view.polls import ANSWER_WITHIN_S, Poll, Polls
from stunwatch.live_view.screen import View, describe, frame
from stunwatch.newest_line import ask, live_lines
from stunwatch.output import Format, FormatOption, JsonFlag, print_json
from stunwatch.printable import Terminal, echo, printable
from stunwatch.settings import Settings, load_settings

REFRESH_SECONDS = 1.0
WIDTH, HEIGHT = 160, 44
"""Size of a frame that is not printed on a terminal."""


def watch(
    output: FormatOption = Format.TABLE,
    json: JsonFlag = False,
    history: Annotated[
        bool, typer.Option("--history", help="Include events that replays find.")
    ] = False,
    most: Annotated[
        int | None,
        typer.Option("--most", "-n", min=1, help="Print this many events, one per line, and exit."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show the screen once, and exit.")] = False,
) -> None:
    """Show open incidents, new events, rates and lag until Ctrl-C.

    With --format json or --most, or without a terminal, it prints events as they are found, one per
    line. With --once --format json it prints everything as one JSON document.

    The second line of the screen shows the age of the newest live line. It is red if the line is
    older than STUNWATCH_NEWEST_LINE_LIMIT_S (600 seconds), or if there was none.

    Examples:

        stunwatch watch

        stunwatch watch --once

        stunwatch watch --format json | jq .vm
    """
    settings = load_settings()
    json = json or output is Format.JSON
    if once:
        polls = Polls(settings, history)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: each.once(), polls.each()))
        if json:
            print_json(_as_json(_view(polls, settings)))
            return
        console = Terminal() if sys.stdout.isatty() else Terminal(width=WIDTH, height=HEIGHT)
        console.print(frame(_view(polls, settings), console.height), height=console.height)
    elif sys.stdout.isatty() and not json and most is None:
        _show(settings, history)
    else:
        _print_lines(settings, json, history, most)


def _show(settings: Settings, history: bool) -> None:
    """Redraw the terminal every second, even if some queries do not answer."""
    polls = Polls(settings, history)
    for each in polls.each():
        each.start()
    console = Terminal()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(frame(_view(polls, settings), console.height), refresh=True)
                time.sleep(REFRESH_SECONDS)
    except KeyboardInterrupt:
        pass


def _view(polls: Polls, settings: Settings) -> View:
    return View(
        now=datetime.now(UTC),
        incidents=polls.incidents.latest,
        events=polls.events.latest,
        flow=polls.flow.latest,
        blind_spots=polls.blind_spots.latest,
        newest_line=polls.newest_line.latest,
        hidden_incidents=polls.hidden_incidents.latest,
        site=settings.site_timezone,
    )


def _as_json(view: View) -> dict[str, Any]:
    """Return the screen's content. Parts without an answer are null; `problems` has reasons."""
    events, flow = view.events.value, view.flow.value
    parts = ("incidents", "hidden_incidents", "events", "flow", "blind_spots", "newest_line")
    return {
        "now": f"{view.now:%FT%TZ}",
        "live_lines": view.live_lines.as_json(),
        "newest_line": view.newest_line.value,
        "incidents": view.incidents.value,
        "hidden_incidents": view.hidden_incidents.value,
        "events": None
        if events is None
        else [{"topic": each.topic, **each.fields} for each in events],
        "flow": None
        if flow is None
        else {"health": flow.health.as_json(), "per_second": flow.per_second},
        "blind_spots": view.blind_spots.value,
        "problems": {
            part: getattr(view, part).trouble for part in parts if getattr(view, part).trouble
        },
    }


def _print_lines(settings: Settings, json: bool, history: bool, most: int | None) -> None:
    """Print one line per event found from now on; notices go to standard error."""
    from confluent_kafka import Consumer  # noqa: PLC0415 (in an extra)

    console = Terminal(highlight=False)
    access = kafka_access(settings, "replay")
    consumer = Consumer(
        access
        | {
            # A group of its own that never commits, so that every `watch` receives every event.
            "group.id": f"stunwatch-watch-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "log_level": 0,
        }
    )
    Kafka(access, patience_seconds=5).partitions([])
    # Windows arrive every minute for every device; they are only for charts.
    consumer.subscribe(sorted({*event_topics()} - {WINDOWS_TOPIC}))
    notices = Terminal(stderr=True, highlight=False)
    newest: Poll[dict[str, Any]] = Poll(lambda: ask(settings, ANSWER_WITHIN_S), 30)
    newest.once()
    newest.start()
    shown, has_hidden, state = 0, False, "ok"
    try:
        while most is None or shown < most:
            found = live_lines(newest.latest.value, newest.latest.trouble, None)
            if found.state != state:
                notices.print(printable(found.sentence), style=found.style)
            state = found.state
            message = consumer.poll(0.5)
            if message is None or message.error():
                continue
            event = readable(message.value())
            if event is None:
                continue
            if not history and event.get("run_id") != "live":
                if not has_hidden:
                    notices.print(
                        "Events of a replay are not shown. Add --history.", style="yellow"
                    )
                has_hidden = True
                continue
            shown += 1
            if json:
                echo(dumps(event))
            else:
                console.print(describe(message.topic(), dict(event), settings.site_timezone))
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()
