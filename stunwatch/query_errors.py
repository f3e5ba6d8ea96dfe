"""Translates ClickHouse's errors into messages with a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable

# Code: 60. DB::Exception: Unknown table stunz. (UNKNOWN_TABLE) (version 25.8.2.29)
_BEGINNING = re.compile(r"(?:Code: \d{1,9}\. )?(?:DB::Exception: )*")
_NAME = re.compile(r"[A-Z][A-Z_0-9]{3,99}")
_SCOPE = re.compile(r"[.,]? [Ii]n (?:scope|query) .*?(?=\. Maybe you meant|$)", re.DOTALL)
# Value abc cannot be parsed as UInt32 for query parameter 'most'
_PARAMETER = re.compile(
    r"[Vv]alue (?P<value>.{0,400}) cannot be parsed as (?P<kind>.{1,99}?) for query parameter"
    r" '(?P<name>\w+)'"
)
_MAYBE = re.compile(r"\.? Maybe you meant:? (?P<names>.+)", re.DOTALL)
_QUOTED = re.compile(r"['`](?P<name>[^'`]+)['`]")
# Table stunwatch.stunz, Unknown format nope
_PLAIN = re.compile(r"(?:Table|Database|[Ff]ormat) (?P<name>[\w.]+)")
_POSITION = re.compile(
    r"failed at position (\d{1,9}) \((.{1,400}?)\)(?: \(line (\d{1,9}), col (\d{1,9})\))?:"
)
_MOST_SAID = 400

LIMIT_HINT = (
    "Ask for a shorter time or fewer columns, group in the query, or add LIMIT. The limits"
    " of users: docs/security.md."
)


def explained(text: str) -> str:
    """Return one message for a person: the problem, the remedy, and ClickHouse's name of the error.

    Args:
        text: the response of ClickHouse, with its error code and version.
    """
    said, name = _said_and_name(" ".join(text.split()))
    meaning = MEANINGS.get(name, _as_said)(said)
    return f"{meaning} [ClickHouse: {name}]" if name else meaning


def _said_and_name(text: str) -> tuple[str, str]:
    before, version, after = text.rpartition(" (version ")
    if version and after.find(")") == len(after) - 1:
        text = before
    said, bracket, name = text.rpartition(" (")
    if not bracket or not _NAME.fullmatch(name.removesuffix(")")):
        said, name = text, ""
    return _BEGINNING.sub("", said, count=1), name.removesuffix(")")


def _as_said(said: str) -> str:
    return f"ClickHouse refused the query: {_shortened(said)}."


def _shortened(said: str) -> str:
    said = _SCOPE.sub("", said).rstrip(".: ")
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}…"


def _syntax(said: str) -> str:
    in_quotes = "In a shell, put the whole query in quotes."
    if "Empty query" in said:
        return f"The query is empty. {in_quotes}"
    if "Multi-statements" in said:
        return "There are several queries. Run one query at a time."
    found = _POSITION.search(said)
    if found is None or found[2] == "end of query":
        return f"The query ends too early. Complete it. {in_quotes}"
    place = f"line {found[3]}, column {found[4]}" if found[3] else f"character {found[1]}"
    if "not closed" in said or "Unmatched" in said:
        return f"The quote or bracket at {place} is not closed: {found[2]}. Close it. {in_quotes}"
    return (
        f"The query has a syntax error at {place}: {found[2]}. Correct it there or just before."
        f" {in_quotes}"
    )


def _unknown(kind: str, advice: str) -> Callable[[str], str]:
    def meaning(said: str) -> str:
        maybe = _MAYBE.search(said)
        rest = _SCOPE.sub("", said[: maybe.start()] if maybe else said)
        quoted = _QUOTED.search(rest) or _PLAIN.search(rest)
        name = quoted["name"].removeprefix("stunwatch.") if quoted else ""
        text = f"There is no {kind} {name}." if name else f"The query names an unknown {kind}."
        if maybe:
            meant = maybe["names"].rstrip("?.")
            names = [each.removeprefix("stunwatch.") for each in _QUOTED.findall(meant)]
            close = names or [meant.removeprefix("stunwatch.")]
            text += f" Did you mean {' or '.join(close[:3])}?"
        return f"{text} {advice}"

    return meaning


def _no_parameter(said: str) -> str:
    quoted = _QUOTED.search(said)
    name = quoted["name"] if quoted else "NAME"
    return f"The query uses the parameter {name}, which has no value. Add --param {name}=…"


def _bad_parameter(said: str) -> str:
    found = _PARAMETER.search(said)
    if found is None:
        return f"A parameter has a value that does not fit its type: {_shortened(said)}."
    return (
        f"--param {found['name']}={found['value']}: {found['value']!r} is not"
        f" {_described(found['kind'])}."
    )


def _bad_time(said: str) -> str:
    if _PARAMETER.search(said):
        return _bad_parameter(said)
    found = re.search(r"while converting '(?P<text>.{0,400}?)' to", said)
    text = f"{found['text']!r} is not a time in SQL." if found else "A text is not a time in SQL."
    return f"{text} Write '2024-05-06 07:08:09' or now() - INTERVAL 1 DAY."


def _described(kind: str) -> str:
    kind = re.sub(r"^Nullable\((.*)\)$", r"\1", kind)
    if kind.startswith("UInt"):
        return "a whole number of 0 or more"
    if kind.startswith("Int"):
        return "a whole number"
    if kind.startswith(("Float", "Decimal")):
        return "a number"
    if kind.startswith("Date"):
        return "a time such as 2024-05-06 07:08:09, in UTC"
    if kind == "UUID":
        return "a whole id"
    return f"a value of the type {kind}"


def _constant(text: str) -> Callable[[str], str]:
    return lambda _: text


def _with_reason(text: str) -> Callable[[str], str]:
    return lambda said: f"{text}: {_shortened(said)}."


_COLUMNS = 'List columns: `stunwatch sql "DESCRIBE TABLE stuns"`, or docs/data.md.'
_TABLES = 'List views: `stunwatch sql "SHOW TABLES"`, or docs/data.md.'
_TOO_LARGE = _constant(f"The answer is larger than a query may return. {LIMIT_HINT}")
_BUSY = _constant(
    "Too many queries are running. Wait until others have ended, then run the query again."
)

MEANINGS: dict[str, Callable[[str], str]] = {
    "SYNTAX_ERROR": _syntax,
    "UNKNOWN_IDENTIFIER": _unknown("column", _COLUMNS),
    "NO_SUCH_COLUMN_IN_TABLE": _unknown("column", _COLUMNS),
    "UNKNOWN_TABLE": _unknown("view or table", _TABLES),
    "UNKNOWN_DATABASE": _unknown("database", "The views are in the database stunwatch."),
    "UNKNOWN_FUNCTION": _unknown(
        "function", "ClickHouse's functions: https://clickhouse.com/docs/sql-reference/functions"
    ),
    "UNKNOWN_FORMAT": _unknown("format", "Common ones: table, json, CSV, JSONEachRow, Vertical."),
    "UNKNOWN_SETTING": _unknown("setting", "Remove it from SETTINGS."),
    "UNKNOWN_QUERY_PARAMETER": _no_parameter,
    "BAD_QUERY_PARAMETER": _bad_parameter,
    "TIMEOUT_EXCEEDED": _constant(f"The query took too long and was stopped. {LIMIT_HINT}"),
    "MEMORY_LIMIT_EXCEEDED": _constant(
        f"The query exceeded its memory limit and was stopped. {LIMIT_HINT}"
    ),
    "TOO_MANY_ROWS_OR_BYTES": _TOO_LARGE,
    "TOO_MANY_ROWS": _TOO_LARGE,
    "TOO_MANY_BYTES": _TOO_LARGE,
    "TOO_MANY_SIMULTANEOUS_QUERIES": _BUSY,
    "QUOTA_EXCEEDED": _BUSY,
    "ACCESS_DENIED": _with_reason("This user may not run the query"),
    "READONLY": _with_reason("This user may only read"),
    "SETTING_CONSTRAINT_VIOLATION": _with_reason("The query sets what this user may not change"),
    "AUTHENTICATION_FAILED": _constant(
        "ClickHouse does not accept the user or the password. `stunwatch up` writes the passwords"
        " into the folder `secrets`; see docs/security.md."
    ),
    "NOT_AN_AGGREGATE": _with_reason("A column is neither in GROUP BY nor aggregated"),
    "TYPE_MISMATCH": _with_reason("Values of different types are compared or combined"),
    "NO_COMMON_TYPE": _with_reason("Values of different types are compared or combined"),
    "ILLEGAL_TYPE_OF_ARGUMENT": _with_reason("A function does not take values of this type"),
    "CANNOT_PARSE_DATETIME": _bad_time,
    "CANNOT_PARSE_UUID": _bad_parameter,
    "EMPTY_LIST_OF_COLUMNS_QUERIED": _constant(
        "The query selects no columns. If the view takes parameters, give them in brackets:"
        " SELECT * FROM log_lines_with(words = 'lost access')."
    ),
    "NOT_ENOUGH_SPACE": _constant(
        "The disk of ClickHouse is full. Free some space; `stunwatch status` shows when lines are"
        " stored again."
    ),
}
"""Functions that explain an error, by ClickHouse's name of the error."""
