"""Parse the recipes of docs/recipes.md: question, commands, and how to read the answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tests.test_conventions import ROOT

PAGE = ROOT / "docs/recipes.md"

NEED_NO_PIPELINE = {"sql", "incident", "report", "change", "alerts", "audit", "triage", "anonymise"}
"""Commands that need no component except ClickHouse. test_written_commands.py tests the others."""

# ### Question?, a console block, a paragraph
_RECIPE = re.compile(
    r"^### (?P<question>.+)\n\n```console\n(?P<commands>(?:.+\n)+?)```\n\n(?P<reading>(?:.+\n)+)",
    re.MULTILINE,
)
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Recipe:
    """One recipe."""

    question: str
    commands: tuple[tuple[str, ...], ...]
    reading: str
    """How to read the answer."""

    @property
    def needs_no_pipeline(self) -> bool:
        return all(words[0] in NEED_NO_PIPELINE for words in self.commands)

    @property
    def named(self) -> list[str]:
        """Return the code in `reading`: parameters, and columns and values of the answer."""
        return [each for each in _CODE.findall(self.reading) if not each.startswith("stunwatch ")]


def recipes() -> list[Recipe]:
    """Return all recipes in the order of the page."""
    return [
        Recipe(found["question"], tuple(_words(found["commands"])), found["reading"])
        for found in _RECIPE.finditer(PAGE.read_text())
    ]


def _words(block: str) -> Iterator[tuple[str, ...]]:
    """Return the words after `stunwatch` for each command of a block."""
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ stunwatch "):
            yield tuple(shlex.split(line.removeprefix("$ stunwatch ")))
