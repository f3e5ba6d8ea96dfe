"""Every number in every pattern is bounded: `\\d{1,19}`, or fewer digits for a smaller field.

Without a bound, a log line could pass a number that `int` rejects (over 4,300 digits), or that does
not fit into a 64-bit column.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from re import _constants, _parser
from typing import Any

import pytest
import yaml

from stunwatch.detectors.catalogue import detectors
from stunwatch.ingest.heads import PARSERS, to_python

ROOT = Path(__file__).parents[1]
MOST_DIGITS = 19
NUMERALS = frozenset(map(ord, string.hexdigits + "xX"))
"""A character set within these, with all ten digits, matches decimal or hexadecimal numbers."""
CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"}


def is_numeral(item: list[Any]) -> bool:
    """True if the repeated item matches only digits of a number."""
    if len(item) != 1 or item[0][0] is not _constants.IN:
        return False
    found: set[int] = set()
    for kind, value in item[0][1]:
        if kind is _constants.CATEGORY and value is _constants.CATEGORY_DIGIT:
            found.update(map(ord, string.digits))
        elif kind is _constants.RANGE:
            found.update(range(value[0], value[1] + 1))
        elif kind is _constants.LITERAL:
            found.add(value)
        else:
            return False
    return set(map(ord, string.digits)) <= found <= NUMERALS


def unbounded(parsed: Any) -> Iterator[int]:
    """Yield the maximum digits of every number that may have more than MOST_DIGITS."""
    for kind, value in parsed:
        if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            least, most, inner = value
            # A fingerprint has a fixed length and is not a number.
            if least != most and is_numeral(list(inner)) and most > MOST_DIGITS:
                yield int(most)
            yield from unbounded(inner)
        elif kind is _constants.BRANCH:
            for each in value[1]:
                yield from unbounded(each)
        elif kind is _constants.SUBPATTERN:
            yield from unbounded(value[3])
        elif kind in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from unbounded(value[1])
        elif kind is _constants.ATOMIC_GROUP:
            yield from unbounded(value)
        elif kind is _constants.GROUPREF_EXISTS:
            yield from unbounded(value[1])
            yield from unbounded(value[2] or ())


def written_in_yaml() -> Iterator[tuple[str, str]]:
    for parser in yaml.safe_load(PARSERS.read_text())["parsers"]:
        # Onigmo's `(?m:.*)` corresponds to Python's `(?s:.*)`.
        yield f"parsers.yaml: {parser['name']}", to_python(parser["regex"]).replace(r"\z", r"\Z")
    for detector in detectors():
        for name, pattern in detector.patterns.items():
            yield f"{detector.name}: {name}", pattern.pattern


def written_in_python() -> Iterator[tuple[str, str]]:
    """Yield the patterns that code compiles, without values interpolated into them.

    The anonymiser is excluded: it replaces numbers of any length, but converts none.
    """
    for folder in ("flink-jobs", "infra", "ingest", "stunwatch", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.parent.name == "anonymising":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                if not is_call or node.func.attr not in CALLS or not node.args:
                    continue
                if getattr(node.func.value, "id", "") == "re" and (text := text_of(node.args[0])):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else node.value.decode("latin-1")
    if isinstance(node, ast.JoinedStr):
        # In rf"\d{1,9}", Python interprets {1,9} as a tuple.
        assert not any(
            isinstance(each, ast.FormattedValue) and isinstance(each.value, ast.Tuple)
            for each in node.values
        ), ast.unparse(node)
        return "".join(
            text_of(each) if isinstance(each, ast.Constant) else "-" for each in node.values
        )
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return ""


def written_in_sql() -> Iterator[tuple[str, str]]:
    """Yield every string in SQL that contains a class of digits; RE2 and Python interpret it alike.

    sql/parsing is excluded: its patterns only check whether a JSON field has a number, and convert
    nothing.
    """
    for path in (*(ROOT / "sql").rglob("*.sql"), *(ROOT / "flink-jobs" / "jobs").glob("*.sql")):
        code = "\n".join(
            line for line in path.read_text().splitlines() if not line.lstrip().startswith("--")
        )
        if path.parent.name == "parsing":
            continue
        for text in re.findall(r"'((?:[^'\\]|\\.|'')*)'", code):
            if "[0-9" in text or r"\\d" in text:
                yield str(path.relative_to(ROOT)), re.sub(r"\\(.)", r"\1", text)


PATTERNS = [*written_in_yaml(), *written_in_python(), *written_in_sql()]


def test_patterns_are_collected_from_yaml_python_and_sql() -> None:
    assert len(list(written_in_yaml())) > 150
    assert len(list(written_in_python())) > 100
    assert len(list(written_in_sql())) > 20


@pytest.mark.parametrize(
    "pattern", [r"\d+", r"a(?:b|\d*)", r"[0-9a-f]+", r"(?=\d{1,20})", "[0-9]{3,}", r"(\d{1,20})?"]
)
def test_an_unbounded_number_is_reported(pattern: str) -> None:
    assert list(unbounded(_parser.parse(pattern)))


@pytest.mark.parametrize("pattern", [r"\d{1,19}", r"[\d.]+", r"\w+", "[0-9a-f-]+", "[0-9a-f]{32}"])
def test_bounded_numbers_and_other_patterns_are_not_reported(pattern: str) -> None:
    assert not list(unbounded(_parser.parse(pattern)))


def test_every_number_in_every_pattern_is_bounded() -> None:
    found = []
    for place, pattern in PATTERNS:
        try:
            parsed = _parser.parse(pattern)
        except re.error:
            # Only a part of a pattern, which SQL concatenates.
            parsed = _parser.parse(re.escape(pattern))
            if re.search(r"(?:\\d|\[0-9(?:a-f|A-F|a-fA-F)?\])(?:[+*]|\{\d+,\})", pattern):
                found.append(f"{place}: {pattern}")
        if any(unbounded(parsed)):
            found.append(f"{place}: {pattern}")
    assert not found, "\n".join(found)
