"""Find the commands on pages, so that tests can parse and run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.test_conventions import PAGES, ROOT

# The changelog describes older versions, so its commands need not exist.
READ = [page for page in PAGES if page.name != "CHANGELOG.md"]

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```", re.M | re.S)
_QUOTED = re.compile(r"(?<!`)`((?:\.venv/bin/)?(?:stunwatch|make)\s[^`]+)`(?!`)")
_SETTING = re.compile(r"[A-Z_]+=.*")
_ENDS = {"|", "&&", "||", ";", ">", "<", "&"}
PROGRAMS = {"stunwatch", "make", "fluent-bit"}
_WITHOUT_INSTALLING = ["uvx", "--from", "."]


@dataclass(frozen=True)
class Written:
    """A command: its words, and the environment variables before them."""

    page: Path
    line: str
    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    kind: str
    """`console`: run as written. Empty: an example. `quoted`: in a sentence, often incomplete."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.line}"


def written(page: Path) -> Iterator[Written]:
    """Return every command of the project on a page, in order."""
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        for line in block["text"].replace("\\\n", " ").splitlines():
            is_typed = block["kind"] != "console" or line.strip().startswith("$ ")
            if is_typed:
                yield from _commands(page, line.strip().removeprefix("$ "), block["kind"])
    for quoted in _QUOTED.findall(_BLOCK.sub("", text)):
        yield from _commands(page, " ".join(quoted.split()), "quoted")


def outputs(page: Path) -> dict[str, list[str]]:
    """Return the output lines that a page shows below each command of its console blocks."""
    shown: dict[str, list[str]] = {}
    for block in _BLOCK.finditer(page.read_text()):
        command = ""
        for line in block["text"].splitlines() if block["kind"] == "console" else ():
            if line.strip().startswith("$ "):
                command = line.strip().removeprefix("$ ")
            elif line.strip():
                shown.setdefault(command, []).append(line.strip())
    return shown


def _commands(page: Path, line: str, kind: str) -> Iterator[Written]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return  # an apostrophe: not a command
    settings: list[tuple[str, str]] = []
    while words and _SETTING.fullmatch(words[0]):
        name, _, value = words.pop(0).partition("=")
        settings.append((name, value))
    if words[:3] == _WITHOUT_INSTALLING:
        del words[:3]
    if not words or Path(words[0]).name not in PROGRAMS:
        return
    end = next((at for at, word in enumerate(words) if word in _ENDS), len(words))
    words = [Path(words[0]).name, *words[1:end]]
    yield Written(page, line, tuple(words), tuple(settings), kind)
