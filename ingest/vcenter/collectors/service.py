"""Runs a collector: connects to vCenter and Kafka, joins the group, and shuts down in order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import KafkaException

from stunwatch.access import kafka_access
from stunwatch.errors import UserError
from stunwatch.ingest.vcenter.positions import Positions
from stunwatch.ingest.vcenter.session import (
    Session,
    StoppedError,
    VCenterError,
    address_from,
    credentials_from,
)
from stunwatch.printable import echo
from stunwatch.settings import load_settings
from stunwatch.shipping import Shipper


class Run(Protocol):
    """The work of one kind of collector, until `stop` is set."""

    def __call__(
        self,
        session: Session,
        positions: Positions,
        shipper: Shipper,
        stop: threading.Event,
        say: Callable[[str], None],
        *,
        is_once: bool,
    ) -> None:
        """Run the collector."""
        ...


def serve(kind: str, run: Run, *, is_once: bool) -> None:
    """Run a collector until a signal stops it.

    Raises:
        UserError: vCenter or Kafka cannot be used with these settings.
    """
    settings = load_settings()
    stop = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    try:
        session = Session(address_from(), credentials_from(), stop=stop)
        access = kafka_access(settings, "collector")
        positions = Positions(access, kind)
        shipper = Shipper(access, lambda: None)
        try:
            run(session, positions, shipper, stop, say, is_once=is_once)
        finally:
            positions.close()
            session.close()
    except StoppedError:
        pass
    except VCenterError as error:
        raise UserError(str(error)) from error
    except KafkaException as error:
        raise UserError(
            f"Cannot reach Kafka on {settings.bootstrap}: {error}. `stunwatch status` shows what"
            " runs."
        ) from error


def say(text: str) -> None:
    """Write a line to the log."""
    echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")
