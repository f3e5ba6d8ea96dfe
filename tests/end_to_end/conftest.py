"""The logs that all end-to-end tests query, replayed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stunwatch.cli.demo import INCIDENT
from stunwatch.cli.replay import EXIT_INCOMPLETE
from tests.end_to_end import logs
from tests.pipeline import Pipeline


@dataclass(frozen=True)
class Replayed:
    """Input and output of one replay of many folders."""

    root: Path
    """The folder of everything but the bundled incident."""
    paths: list[Path]
    """The paths given to the command."""
    said: str
    said_again: str
    """Output of a second replay of the same paths, directly after the first."""
    views: dict[str, list[tuple[Any, ...]]]
    """The views before the second replay."""
    views_again: dict[str, list[tuple[Any, ...]]]
    incidents: list[dict[str, Any]]
    """The incidents after the second replay. Later tests add lines of the same time."""


@pytest.fixture(scope="session")
def replayed(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """Replay the bundled incident and every folder of `logs` in one run.

    Then replay all of it once more, before any test adds data that incidents depend on.

    The exit code reports bad input, as `logs.bad_input` contains some.
    """
    root = tmp_path_factory.mktemp("logs")
    paths = [INCIDENT, *logs.write(root)]
    done = pipeline.run("replay", *paths, code=EXIT_INCOMPLETE)
    views = pipeline.views()
    again = pipeline.run("replay", *paths, code=EXIT_INCOMPLETE)
    incidents = pipeline.reader.named_rows("SELECT * FROM incidents")
    return Replayed(root, paths, done.stderr, again.stderr, views, pipeline.views(), incidents)
