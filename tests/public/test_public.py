"""The public interface equals `golden/`: names, types, ids and rows that users rely on."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from tests.clickhouse_server import Server
from tests.public.texts import MADE, MADE_BY_CLICKHOUSE, golden

SHOWN_LINES = 60
COMPUTED_FOR_SECONDS = {"help", "cases", "night"}


def assert_unchanged(name: str, text: str) -> None:
    before = golden(name).read_text().splitlines()
    lines = list(unified_diff(before, text.splitlines(), "golden", "now", n=1, lineterm=""))
    shown = "\n".join(lines[:SHOWN_LINES])
    assert not lines, (
        f"{len(lines)} lines of difference in {name}. If the change is wanted, run"
        f" `python -m tests.public.accept {name}`.\n{shown}"
    )


@pytest.mark.parametrize("name", sorted({*MADE} - COMPUTED_FOR_SECONDS))
def test_public_text_is_unchanged(name: str) -> None:
    assert_unchanged(name, MADE[name]())


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(COMPUTED_FOR_SECONDS))
def test_computed_text_is_unchanged(name: str) -> None:
    assert_unchanged(name, MADE[name]())


@pytest.mark.parametrize("name", sorted(MADE_BY_CLICKHOUSE))
def test_columns_are_unchanged(name: str, server: Server) -> None:
    assert_unchanged(name, MADE_BY_CLICKHOUSE[name](server.admin))
