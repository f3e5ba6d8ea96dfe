"""Generate hostile texts for a regular expression from its parse tree.

A backtracking engine is slow if two quantifiers can match the same characters. So for every
quantifier of a pattern, a text starts with what the parts before it match, continues with a long
run of what it repeats (alone, or together with the parts after it), and ends with a tail that the
rest of the pattern does not match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

Parsed = list[tuple[Any, Any]]

ALPHABET = 'a1 -.:"])>\n\t'
"""A character class is tried with those of these characters that it matches."""

PLAIN_PUMPS = (*"a1f -.:,\"'[]()<\n\t", "a ", "a: ", "]a[", "\r\n")
REFUSED = "\0\n!"
"""A character that few classes match, one that `.` does not match, and one after which `$`
fails."""

PUMPED_FROM = 17
"""A quantifier with fewer repeats is not pumped."""

_WORDS_AHEAD = 3
_FILLINGS = ("", " ", "a")
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_LOOKS = (sre.ASSERT, sre.ASSERT_NOT)
_CATEGORIES = {
    sre.CATEGORY_DIGIT: re.compile(r"\d", re.ASCII),
    sre.CATEGORY_NOT_DIGIT: re.compile(r"\D", re.ASCII),
    sre.CATEGORY_SPACE: re.compile(r"\s", re.ASCII),
    sre.CATEGORY_NOT_SPACE: re.compile(r"\S", re.ASCII),
    sre.CATEGORY_WORD: re.compile(r"\w", re.ASCII),
    sre.CATEGORY_NOT_WORD: re.compile(r"\W", re.ASCII),
}


@dataclass(frozen=True)
class Part:
    """A part of a pattern. For a quantifier, `words` are the possible repeats."""

    words: tuple[str, ...]
    is_run: bool = False
    is_needed: bool = True

    def shortest(self, filling: str) -> str:
        """Return the shortest match of the part, or `filling` if the part matches that as well."""
        if self.is_needed or (filling and filling in self.words):
            return filling if filling in self.words else self.words[0]
        return ""


@dataclass(frozen=True)
class Text:
    """A text of `prefix`, repeated `pump` and `tail`."""

    prefix: str
    pump: str
    tail: str

    def of(self, size: int) -> str:
        """Return a text of about `size` characters."""
        return self.prefix + self.pump * (size // len(self.pump)) + self.tail


def texts(pattern: re.Pattern[str]) -> list[Text]:
    """Return the hostile texts of a pattern."""
    found = {Text("", pump, REFUSED): None for pump in PLAIN_PUMPS}
    for parts, filling in _reached(pattern):
        found |= dict.fromkeys(_pumped(parts, filling))
    return list(found)


def is_reached(pattern: re.Pattern[str]) -> bool:
    """True if one of the texts that lead to the pattern's last part is a match."""
    return any(pattern.search(_example(parts, filling)) for parts, filling in _reached(pattern))


def _pumped(parts: list[Part], filling: str) -> Iterator[Text]:
    ones = [part.words[0] for part in parts]
    for at, part in enumerate(parts):
        if at and not part.is_run:
            continue
        prefix = _example(parts[:at], filling)
        rest = "".join(ones[at + 1 :])
        ends = range(at + 1, at + 2 + _WORDS_AHEAD)
        pumps = {*part.words, *("".join(ones[first:end]) for first in (at, at + 1) for end in ends)}
        for pump in sorted(pumps - {""}):
            yield Text(prefix, pump, REFUSED)
            yield Text(prefix, pump, rest + REFUSED)


def _example(parts: Iterable[Part], filling: str) -> str:
    return "".join(part.shortest(filling) for part in parts)


def _reached(pattern: re.Pattern[str]) -> Iterator[tuple[list[Part], str]]:
    """Yield the parts of a pattern for each branch of an alternation, and its filling."""
    parsed = _parser.parse(pattern.pattern, pattern.flags)
    for branch in range(_branches(parsed)):
        parts = list(_joined(_parts(parsed, branch)))
        matching = (each for each in _FILLINGS if pattern.search(_example(parts, each)))
        yield parts, next(matching, _FILLINGS[0])


def _branches(parsed: Parsed) -> int:
    """Return the largest number of branches of any alternation; a choice of words counts as one."""
    most = 1
    for code, given in parsed:
        inner = _inner(code, given)
        if code is sre.BRANCH and any(_has_run(each) for each in inner):
            most = max(most, len(inner))
        if code in _REPEATS and given[:2] == (0, 1):
            most = max(most, 2)
        most = max([most, *(_branches(each) for each in inner)])
    return most


def _has_run(parsed: Parsed) -> bool:
    return any(
        (code in _REPEATS and given[1] >= PUMPED_FROM) or any(map(_has_run, _inner(code, given)))
        for code, given in parsed
    )


def _inner(code: Any, given: Any) -> list[Parsed]:
    """Return the patterns inside a node."""
    if code is sre.BRANCH:
        return list(given[1])
    if code is sre.SUBPATTERN:
        return [given[3]]
    if code is sre.ATOMIC_GROUP:
        return [given]
    if code in _REPEATS:
        return [given[2]]
    return [given[1]] if code in _LOOKS else []


def _parts(parsed: Parsed, branch: int) -> Iterator[Part]:
    for number, (code, given) in enumerate(parsed):
        if code is sre.LITERAL:
            yield Part((chr(given),))
        elif code in (sre.NOT_LITERAL, sre.IN, sre.ANY):
            yield Part(_characters(code, given))
        elif code is sre.BRANCH:
            yield from _parts(given[1][branch % len(given[1])], branch)
        elif code in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
            yield from _parts(_inner(code, given)[0], branch)
        elif code in _REPEATS:
            yield from _repeated(*given, branch)
        elif code is sre.ASSERT and given[0] > 0 and number == len(parsed) - 1:
            yield from _parts(given[1], branch)  # nothing after it contains what it looks for
        elif code not in (sre.AT, *_LOOKS):
            raise NotImplementedError(code)


def _repeated(fewest: int, most: int, body: Parsed, branch: int) -> Iterator[Part]:
    once = list(_joined(_parts(body, branch)))
    if (fewest, most) == (0, 1):
        yield from once if branch % 2 == 0 else ()
    elif len(once) == 1 and not once[0].is_run:
        yield from [Part(once[0].words)] * max(0, fewest - 1)
        if most >= PUMPED_FROM:
            yield Part(once[0].words, is_run=True, is_needed=fewest > 0)
        elif fewest:
            yield Part(once[0].words)
    else:
        yield Part(("".join(part.words[0] for part in once),), is_run=True, is_needed=False)
        yield from once * max(fewest, 1 - branch % 2)


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Merge neighbours that are not runs to one word; a single class keeps its characters."""
    fixed: list[Part] = []
    for part in parts:
        if not part.is_run:
            fixed.append(part)
            continue
        yield from _word(fixed)
        fixed.clear()
        yield part
    yield from _word(fixed)


def _word(fixed: list[Part]) -> Iterator[Part]:
    if len(fixed) == 1:
        yield fixed[0]
    elif fixed:
        yield Part(("".join(part.words[0] for part in fixed),))


def _characters(code: Any, given: Any) -> tuple[str, ...]:
    """Return the characters of ALPHABET that a class matches; another one if it matches none."""
    if code is sre.ANY:
        return tuple(ALPHABET.replace("\n", ""))
    taken = tuple(each for each in ALPHABET if _takes(code, given, each))
    return taken or (next(chr(each) for each in range(1, 0x500) if _takes(code, given, chr(each))),)


def _takes(code: Any, given: Any, character: str) -> bool:
    if code is sre.NOT_LITERAL:
        return ord(character) != given
    is_taken = any(
        (kind is sre.LITERAL and ord(character) == value)
        or (kind is sre.RANGE and value[0] <= ord(character) <= value[1])
        or (kind is sre.CATEGORY and _CATEGORIES[value].fullmatch(character) is not None)
        for kind, value in given
    )
    return is_taken is not (given[0][0] is sre.NEGATE)
