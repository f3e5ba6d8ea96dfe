"""Text from logs as what it is, data: it moves no cursor, hides nothing, turns no line around."""

from __future__ import annotations

import re

# What terminals obey (C0 and C1), and what turns the reading direction.
_COMMANDS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with a sign in the place of every control character: ␛ for an escape."""
    return _COMMANDS.sub(_sign, text)


def printable_lines(text: str) -> str:
    """The same of text of several lines, which stay lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return " " if found[0] in "\t\n\r" else chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
