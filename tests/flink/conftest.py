"""Restore the environment around mini-clusters inside the test's own process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stunwatch.folders import PACKAGE
from stunwatch.local import job_code


@pytest.fixture(scope="module", autouse=True)
def environment_as_before() -> Iterator[None]:
    """PyFlink sets environment variables; a process that inherits them cannot submit a job."""
    before = dict(os.environ)
    # The Python inside the mini-cluster's JVM does not know the environment of this process.
    os.environ["PYTHONPATH"] = job_code.python_path(PACKAGE.parent)
    yield
    os.environ.clear()
    os.environ.update(before)
