"""Splits an export that is one JSON document into one object per line.

Answers of search interfaces (Elastic, Splunk, Log Insight, Graylog) and downloads of Grafana and
Azure are an array of objects, often within other objects, in one line or indented.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import orjson

from stunwatch.ingest.replay.fields import MESSAGES
from stunwatch.ingest.replay.streams import Limits, UnreadableError, beginning
from stunwatch.ingest.replay.wrapped import MESSAGE_FIELDS

LARGEST_BYTES: Final = 64 << 20
MOST_OBJECTS: Final = 1_000_000
MOST_VALUES: Final = 8_000_000
"""A document is parsed as a whole, and each object and value needs memory."""

_NAMES: Final = {path[-1].lower() for path in (*MESSAGE_FIELDS, *MESSAGES)}
_DEEPEST: Final = 4  # {"hits": {"hits": [{"_source": …
_FIRST_LINES: Final = 3
_MESSAGE = re.compile(
    rb'"(?:[\w@.]{0,32}\.)?(?:' + "|".join(sorted(_NAMES)).encode() + rb')"\s{0,8}:\s{0,8}"[^"]',
    re.IGNORECASE,
)


def is_document(head: bytes) -> bool:
    """Return True if a file's first bytes begin one JSON document with messages of a log."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"{", b"[")) or _MESSAGE.search(text) is None:
        return False
    lines = [line for line in text.split(b"\n") if line.strip()]
    for line in lines[:_FIRST_LINES]:
        try:
            found = orjson.loads(line.strip(b"[],\r "))
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):  # one object per line, unless it is the only line
            return len(lines) == 1 and bool(_objects(found))
    return True


def split(path: Path, to: Path, limits: Limits) -> bool:
    """Write the objects of a document to a file, one per line; return False if none has a message.

    Raises:
        UnreadableError: the document is too large or broken.
    """
    data = beginning(path, LARGEST_BYTES + 1, limits)
    is_large = data.count(b"{") > MOST_OBJECTS or data.count(b",") > MOST_VALUES
    if is_large or len(data) > LARGEST_BYTES:
        raise UnreadableError(
            f"it is a JSON document of more than {LARGEST_BYTES >> 20} MiB,"
            f" {MOST_OBJECTS:,} objects or {MOST_VALUES:,} values. Write one object per line, for"
            " example with `jq -c '.[]'`, and replay the result"
        )
    try:
        objects = _objects(orjson.loads(data.removeprefix(b"\xef\xbb\xbf")))
    except orjson.JSONDecodeError:
        raise UnreadableError("it is a JSON document that is cut off or damaged") from None
    with to.open("wb") as lines:
        for each in objects:
            lines.write(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE))
    return bool(objects)


def _objects(document: Any, depth: int = 0) -> list[dict[str, Any]]:
    """Return the longest array of objects with messages."""
    if isinstance(document, list):
        return [_inner(each) for each in document if isinstance(each, dict) and _has_message(each)]
    if not isinstance(document, dict) or depth == _DEEPEST:
        return []
    return max((_objects(each, depth + 1) for each in document.values()), key=len, default=[])


def _inner(each: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the fields: Graylog's `message` and Datadog's `attributes`."""
    inner = next((each[name] for name in ("message", "attributes") if _is_object(each, name)), each)
    return inner if _has_message(inner) else each


def _is_object(each: dict[str, Any], name: str) -> bool:
    return isinstance(each.get(name), dict)


def _has_message(each: dict[str, Any], depth: int = 0) -> bool:
    names = {name.lower().rpartition(".")[2] for name in each}
    if not names.isdisjoint(_NAMES):
        return True
    inner = each.values() if depth < _DEEPEST else ()
    return any(isinstance(value, dict) and _has_message(value, depth + 1) for value in inner)
