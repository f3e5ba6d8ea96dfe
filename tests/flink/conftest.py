"""Mini-clusters inside the test's own process: their jars and their environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from rich.console import Console

from stunwatch.folders import PACKAGE
from stunwatch.local import fetch, flink, job_code
from tests.pipeline import settings_in


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the jar with the project's Java classes."""
    settings = settings_in(tmp_path_factory.mktemp("built"))
    fetch.ensure(settings, Console(stderr=True))
    [jar] = flink.jars(settings).glob("stunwatch-prefilter-*.jar")
    return jar.as_uri()


@pytest.fixture(scope="module", autouse=True)
def environment_as_before() -> Iterator[None]:
    """PyFlink sets environment variables; a process that inherits them cannot submit a job."""
    before = dict(os.environ)
    # The Python inside the mini-cluster's JVM does not know the environment of this process.
    os.environ["PYTHONPATH"] = job_code.python_path(PACKAGE.parent)
    yield
    os.environ.clear()
    os.environ.update(before)
