"""Restore the environment around mini-clusters inside the test's own process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def environment_as_before() -> Iterator[None]:
    """PyFlink sets environment variables; a process that inherits them cannot submit a job."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
