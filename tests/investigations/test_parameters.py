"""A parameter's value reaches ClickHouse unchanged, whatever characters it contains."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.investigations import investigations
from tests.clickhouse_server import Server

ROOT = Path(__file__).parents[2]

# Any text, with a preference for characters that are special in ClickHouse or in a URL. In command
# line arguments, bytes that are not UTF-8 are lone surrogates.
TEXT = st.text(
    st.sampled_from("\\'\"`\t\n\r\b\f\0\v%&+=?#{}[](),$Nnxu0 \udcff")
    | st.characters(exclude_categories=["Cs"])
)
TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1))

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "String": TEXT,
    "Nullable(String)": TEXT,
    "Array(String)": st.lists(TEXT),
    "Array(UInt64)": st.lists(st.integers(0, 2**64 - 1)),
    "Bool": st.booleans(),
    "UInt32": st.integers(0, 2**32 - 1),
    "UInt64": st.integers(0, 2**64 - 1),
    "Int64": st.integers(-(2**63), 2**63 - 1),
    "Float64": st.integers(-(2**50), 2**50).map(lambda each: each / 8),
    "UUID": st.uuids().map(str),
    "DateTime('UTC')": TIMES.map(lambda each: f"{each:%Y-%m-%d %H:%M:%S}"),
    "DateTime64(3, 'UTC')": TIMES.map(lambda each: f"{each:%Y-%m-%d %H:%M:%S.%f}"[:-3]),
    "DateTime64(6)": TIMES.map(lambda each: f"{each:%Y-%m-%d %H:%M:%S.%f}"),
    "DateTime64(6, 'UTC')": TIMES.map(lambda each: f"{each:%Y-%m-%d %H:%M:%S.%f}"),
}

# {vm:String}, {until:DateTime64(6, 'UTC')}
_TYPE = re.compile(r"\{\{?\w+:(?P<type>[A-Z]\w*(?:\((?:[^(){}]|\([^(){}]*\))*\))?)\}")


def _hex(text: str) -> str:
    return text.encode(errors="surrogateescape").hex().upper()


@pytest.mark.parametrize("kind", VALUES)
def test_any_value_reaches_clickhouse_unchanged(server: Server, kind: str) -> None:
    @settings(max_examples=60 if "String" in kind else 15)
    @given(VALUES[kind])
    def arrives(value: Any) -> None:
        told, wanted = f"{{value:{kind}}}", value
        if kind == "Array(String)":
            told, wanted = f"arrayMap(each -> hex(each), {told})", [_hex(each) for each in value]
        elif isinstance(value, str) and "String" in kind:
            told, wanted = f"hex({told})", _hex(value)
        assert server.reader.rows(f"SELECT {told}", {"value": value}) == [(wanted,)]

    arrives()


def test_every_type_of_a_query_parameter_is_tested() -> None:
    files = [*ROOT.glob("sql/**/*.sql"), *ROOT.glob("stunwatch/**/*.py")]
    used = {found["type"] for file in files for found in _TYPE.finditer(file.read_text())}
    assert used <= set(VALUES)
    assert "UUID" in used


def test_no_investigation_uses_a_value_as_a_pattern() -> None:
    """In LIKE and regular expressions, `_`, `%`, `.` and a backslash have a special meaning."""
    for each in investigations().values():
        patterns = re.findall(
            r"\b(?:I?LIKE|match|extract\w*|REGEXP|replaceRegexp\w*)\b[^\n]*\{\w+:String\}",
            each.query,
            re.IGNORECASE,
        )
        assert not patterns, each.name
