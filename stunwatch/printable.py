"""Prints text from logs as data: no control character reaches the terminal.

All output of commands goes through `Terminal` or `echo`; tests/test_conventions.py checks this.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# Control characters (C0 and C1), characters that change the writing direction, invisible
# characters, and surrogates, which no output can encode.
_COMMANDS = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)

UNBOUNDED = 100_000
"""Width in columns if the output is not a terminal."""


def printable(text: str) -> str:
    """Replace every control character with a visible sign, such as ␛ for an escape."""
    return _COMMANDS.sub(_sign, text)


def printable_lines(text: str) -> str:
    """Replace control characters in a text of several lines; line breaks stay."""
    return "\n".join(printable(line) for line in text.split("\n"))


def echo(text: str, end: str = "\n") -> None:
    """Print text with control characters replaced."""
    sys.stdout.write(printable_lines(text) + end)
    sys.stdout.flush()


class Terminal(Console):
    """A console that prints every string as data: no markup, no emoji codes, no control characters.

    Use `style` or a `rich.text.Text` for colours. In a pipe or a file a table is as wide as its
    contents, so that no cell is wrapped.
    """

    def __init__(self, **options: Any) -> None:
        """Accept the options of rich's Console."""
        super().__init__(**options, markup=False, emoji=False)
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = UNBOUNDED

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Replace control characters. Rich calls this method for everything it prints."""
        for segment in super().render(renderable, options):
            if segment.control is None and _COMMANDS.search(segment.text):
                yield Segment(printable_lines(segment.text), segment.style)
            else:
                yield segment


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return " " if found[0] in "\t\n\r" else chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
