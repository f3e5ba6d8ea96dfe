"""Messages that violate their schema, for every topic that ClickHouse reads.

`broken_messages` breaks every field of every valid sample of schemas/ in every way.
`mutated_messages` breaks several fields at random; the same seed produces the same messages.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from stunwatch.settings import ROOT

SCHEMAS: Final = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in sorted((ROOT / "schemas").glob("*.schema.json"))
}
TIME: Final = {"type": "string", "pattern": SCHEMAS["stun.v1"]["properties"]["ended_at"]["pattern"]}
SCHEMAS["late"] = {
    # SampleWindows writes these messages only for ClickHouse.
    "x-topics": ["esxi.late"],
    "type": "object",
    "required": ["event_time", "object_class", "device", "run_id"],
    "properties": {
        "event_time": TIME,
        "host": {"type": ["string", "null"]},
        "object_class": {"type": "string", "minLength": 1},
        "device": {"type": "string", "minLength": 1},
        "run_id": {"type": "string", "minLength": 1},
    },
}
LATE: Final = {
    "event_time": "2024-05-06T07:08:03.5Z",
    "host": "esx01.lab.example",
    "object_class": "scsi_device",
    "device": "naa.600a0b80002a1c3d",
    "run_id": "live",
}

WAYS: Final[Mapping[str, bytes]] = {
    "null": b"null",
    "true": b"true",
    "negative": b"-1",
    "half": b"0.5",
    "too large for 32 bits": b"4294967296",
    "too large for 64 bits": b"18446744073709551616",
    "no finite number": b"1e400",
    "number as text": b'"12"',
    "empty text": b'""',
    "text": b'"garbled"',
    "text of control characters": b'"\\u0000\\u001b[2J\\r\\n"',
    "text that is no UTF-8": b'"\xff\xfe"',
    "half a surrogate pair": b'"\\ud800"',
    "no day": b'"2024-02-30T07:08:09Z"',
    "no hour": b'"2024-02-20T25:61:61Z"',
    "year 0": b'"0000-00-00T00:00:00Z"',
    "year 9999": b'"9999-12-31T23:59:59Z"',
    "empty list": b"[]",
    "list of nothing": b"[null]",
    "list of texts": b'["garbled"]',
    "list of a number too large for 64 bits": b"[8.5e19]",
    "list of numbers": b"[1, 2.5]",
    "list of a number and nothing": b"[1, null]",
    "list of a number and a text": b'[1, "2"]',
    "list of a number and true": b"[1, true]",
    "list of a number and a list": b"[1, [2]]",
    "list of no finite number": b"[1e400, 1]",
    "list of texts, one with brackets": b'["a]\\"[,", "b"]',
    "list of texts, one empty": b'["garbled", ""]',
    "list of a text and a number": b'["garbled", 1]',
    "object": b'{"a": {"b": 1}}',
    "nested deeply": b"[" * 1100 + b"]" * 1100,
}
"""Values that replace a field. A field may also be absent or duplicated."""

ABSENT: Final = "absent"
TWICE: Final = "twice"

NO_OBJECTS: Final[Mapping[str, bytes]] = {
    "empty": b"",
    "no JSON": b"Checkpoint_Unstun: vm stopped for 48211 us",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e400",
    "an empty object": b"{}",
    "zeroes": b"\x00" * 100,
    "a byte order mark": b'\xef\xbb\xbf{"event_id": 1}',
    "two objects": b"{}{}",
    "half an object": b'{"event_id": "3c3bd0fa-96d0-5b17-9d3c-0a47d3a46d1c", "revis',
    "nested deeply": b'{"event_id":' * 5000 + b"1" + b"}" * 5000,
    "2 MB of quotation marks": b'{"event_id": "' + b'\\"' * 1_000_000,
    "2 MB of fields": b"{" + b",".join(b'"a%d":1' % each for each in range(150_000)) + b"}",
}


Texts = Mapping[str, bytes]
"""The fields of a message, each as JSON text."""


@dataclass(frozen=True)
class Hostile:
    """One message. `schema` is "" if the message is not an object."""

    topic: str
    key: str
    value: bytes
    schema: str
    about: str


def samples() -> Iterator[tuple[str, str, str, Texts]]:
    """Yield every valid sample for every topic of its schema: (topic, schema, name, fields)."""
    found = [("late", "late", LATE)]
    for path in sorted((ROOT / "schemas" / "samples").glob("*.pass.json")):
        schema = ".".join(path.name.split(".")[:2])
        found.append((schema, path.name.removesuffix(".pass.json"), json.loads(path.read_text())))
    for schema, name, message in found:
        texts = {field: encoded(each) for field, each in message.items()}
        for topic in SCHEMAS[schema]["x-topics"]:
            yield topic, schema, name, texts


def broken_messages() -> Iterator[Hostile]:
    """Yield every sample with every field broken in every way, and messages that are not objects.

    Some are only unusual, because a text field accepts any text. Every message has its own
    identity, if the broken field permits.
    """
    for topic, schema, name, texts in samples():
        for field in fields(SCHEMAS[schema]):
            for way in (ABSENT, TWICE, *WAYS):
                about = f"{name}: {field} is {way}"
                value = broken(identified(topic, about, texts), field, way)
                if value is not None:
                    yield Hostile(topic, about, value, schema, about)
    for topic in {topic: None for topic, *_ in samples()}:
        for way, value in NO_OBJECTS.items():
            yield Hostile(topic, way, value, "", f"{topic}: it is {way}")


def mutated_messages(seed: int) -> Iterator[Hostile]:
    """Yield samples with one to four fields broken at random, without end."""
    rng = random.Random(seed)
    known = list(samples())
    for number in count():
        topic, schema, name, texts = rng.choice(known)
        about = f"{name}: mutation {number} of seed {seed}"
        changed = identified(topic, about, texts)
        # Without an offset, two lines of a host may be the same line; `device` identifies a late
        # sample.
        only_name = "device" if schema == "late" else "offset"
        names = [each for each in SCHEMAS[schema]["properties"] if each != only_name]
        for field in rng.choices(names, k=rng.randint(1, 4)):
            changed.pop(field, None)
            if rng.random() < 0.9:
                changed[field] = _text(rng)
        yield Hostile(topic, about, joined(changed.items()), schema, about)


def fields(schema: Mapping[str, Any]) -> list[str]:
    """Return names of a schema's fields, and of fields of objects in them: `next_steps.step`."""
    names = []
    for name, each in schema["properties"].items():
        members = each.get("items", each).get("properties", {})
        names += [name, *(f"{name}.{member}" for member in members)]
    return names


def identified(topic: str, about: str, texts: Texts) -> dict[str, bytes]:
    """Return the message with a new identity: another event_id, or another file and offset."""
    identity = uuid5(NAMESPACE_URL, f"{topic} {about}")
    name = encoded(str(identity))
    if "event_id" in texts:
        return {**texts, "event_id": name}
    if topic == "esxi.late":
        return {**texts, "device": name}
    return {**texts, "generation": name, "file": name, "offset": b"%d" % identity.time_low}


def broken(texts: Texts, path: str, way: str) -> bytes | None:
    """Return the message with one field broken; None if that changes nothing."""
    field, _, member = path.partition(".")
    kept = [(name, each) for name, each in texts.items() if name != field]
    if member:
        found = json.loads(texts[field]) or [{}]
        first, *others = found if isinstance(found, list) else [found]
        inner = broken({name: encoded(each) for name, each in first.items()}, member, way)
        if inner is None:
            return None
        if isinstance(found, dict):
            return joined([*kept, (field, inner)])
        return joined([*kept, (field, b"[" + b",".join([inner, *map(encoded, others)]) + b"]")])
    if way not in {ABSENT, TWICE}:
        return joined([*kept, (field, WAYS[way])])
    if field not in texts:
        return None
    return joined(kept if way == ABSENT else [*kept, *[(field, texts[field])] * 2])


def joined(texts: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a JSON object."""
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), text) for name, text in texts) + b"}"


def encoded(each: Any) -> bytes:
    """Return JSON without spaces."""
    return json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode()


def _text(rng: random.Random) -> bytes:  # noqa: PLR0911
    """Return a random value, as JSON text or nearly."""
    match rng.randrange(7):
        case 0:
            return rng.choice([*WAYS.values()])
        case 1:
            return b"%d" % rng.choice([rng.getrandbits(rng.randrange(1, 70)), -rng.getrandbits(9)])
        case 2:
            return repr(rng.uniform(-1, 1) * 10 ** rng.randrange(-300, 300)).encode()
        case 3:
            letters = 'aZ09 "\\/\t\n\x00\x7fé☃😀{}[],:-'
            return encoded("".join(rng.choices(letters, k=rng.randrange(40))))
        case 4:
            parts = (
                rng.choice((1899, 1900, 1970, 2024, 2299, 2300)),
                *(rng.randrange(70) for _ in "12345"),
            )
            return b'"%04d-%02d-%02dT%02d:%02d:%02d.5Z"' % parts
        case 5:
            return b"[" + b",".join(_text(rng) for _ in range(rng.randrange(4))) + b"]"
        case _:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(1, 6)))
