"""The beginning of an id identifies it, if no other id begins with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError
from stunwatch.short_ids import INCIDENT_IDS, the_one

IDS = [
    "1f0e9c2a-0000-5000-8000-000000000001",
    "1f0e77b1-0000-5000-8000-000000000002",
    "0badcafe-0000-5000-8000-000000000003",
    "0badcafe-0000-5000-8000-000000000004",
]


class Reader(ClickHouse):
    """A stub that answers the query of `the_one`."""

    def __init__(self) -> None:
        pass

    def named_rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        assert INCIDENT_IDS in sql
        assert parameters is not None
        return [{"id": each} for each in sorted(IDS) if each.startswith(parameters["beginning"])]


def find(typed: str) -> str:
    return str(the_one(Reader(), INCIDENT_IDS, typed, "incident", "stunwatch incident list")["id"])


@pytest.mark.parametrize("typed", ["1f0e9c2a", "1f0e9", " 1F0E9C2A ", IDS[0]])
def test_a_unique_beginning_of_an_id_is_enough(typed: str) -> None:
    assert find(typed) == IDS[0]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("1f0e", "2 incidents have an id that begins with 1f0e: 1f0e77b1, 1f0e9c2a."),
        ("0bad", f"begins with 0bad: {IDS[2]}, {IDS[3]}."),
        ("77", "No incident has an id that begins with 77. List: `stunwatch incident list`."),
        ("", "'' is not an id of an incident."),
        ("sql01", "'sql01' is not an id of an incident."),
        (f"{IDS[0]}0", "is not an id of an incident."),
        ("x'; --", "is not an id of an incident."),
    ],
)
def test_any_other_text_is_an_error_with_a_remedy(typed: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        find(typed)
    assert told in str(caught.value)
