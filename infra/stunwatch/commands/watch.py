"""`stunwatch watch`: events, as Flink finds them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import orjson
import typer
from confluent_kafka import Consumer
from rich.console import Console
from rich.text import Text

from detectors.catalogue import WINDOWS_TOPIC, event_topics
from stunwatch.kafka import Kafka
from stunwatch.settings import load_settings

SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "notice": "cyan", "normal": "dim"}


def watch(
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Also what replays find, not only live events.")
    ] = False,
    most: Annotated[
        int | None, typer.Option("--most", "-n", help="End after so many events.")
    ] = None,
) -> None:
    """Show events as they are found, until Ctrl-C.

    Example:

        stunwatch watch --json | jq .vm
    """
    settings = load_settings()
    console = Console(highlight=False)
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            # A group of its own, never committed: every watcher sees every event.
            "group.id": f"stunwatch-watch-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "log_level": 0,
        }
    )
    Kafka(settings.bootstrap, patience_seconds=5).partitions([])
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


def describe(topic: str, event: dict[str, Any]) -> Text:
    """One line of text for an event."""
    kind = topic.removeprefix("events.")
    line = Text(f"{event.get('ended_at') or event.get('started_at', ''):27} {kind:12} ")
    if event.get("is_deleted"):
        return line.append(f"taken back: {event['event_id']}", style="dim")
    owner = "/".join(filter(None, (event.get("datastore"), event.get("vm")))) or event.get("host")
    line.append(f"{owner}  ")
    line.append(" ".join(_facts(event)), style=SEVERITY_STYLES.get(event.get("severity", ""), ""))
    return line


def _facts(event: dict[str, Any]) -> Iterator[str]:
    """What is worth saying of an event in one line, whatever its kind."""
    for name in ("device", "volume", "path", "name", "kind", "cause", "dialect", "outcome"):
        if event.get(name):
            yield str(event[name])
    if "duration_us" in event:
        yield f"{event['duration_us'] / 1e6:.6f} s"
    for name in ("peak_ms", "steps", "iterations", "count"):
        if event.get(name) is not None:
            yield f"{name} {event[name]}"
