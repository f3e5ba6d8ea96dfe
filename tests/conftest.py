"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

# The same examples every time: a run is red because of a change, not because of its dice.
settings.register_profile("same_examples", derandomize=True)
settings.load_profile("same_examples")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Screenshots are made anew only when asked for: tests leave the tree as it is.

    With --secure, the end-to-end tests' pipelines ask for TLS and passwords as `up --secure` does.
    """
    parser.addoption("--secure", action="store_true", help="End-to-end tests on secured pipelines.")
    parser.addoption("--screenshots", type=Path, help="A folder for pictures of the dashboards.")
