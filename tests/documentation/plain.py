"""Check pages, help texts and messages for plain English: `make lint`.

Finds the words of words.yaml, and long sentences. Code is not checked: code spans, code blocks,
paths and options keep their names.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
import yaml
from markdown_it import MarkdownIt

from stunwatch import cli

ROOT = Path(__file__).parents[2]
RULES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text())

CODE = "CODE"
"""Replaces code in a text. It counts as a word."""

# A sentence ends before a capital letter, a quotation mark, a bracket or code.
_END = re.compile(r"""(?<=[.!?])["')*]*\s+(?=[A-Z"'(\d])""")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vs|etc|approx|No)\.$")
# `code`, an option, a path, a file, a name_with_underscores
_IS_CODE = re.compile(
    r"`[^`]*`|(?<![\w-])--?[a-zA-Z][\w-]*|[\w.*<>~-]*/[\w./*<>~-]+|\w+_\w+|\b\w+\.(?:py|md|sql|yaml)\b"
)
_MARKUP = re.compile(r"\[/?[a-z ]+\]")


@dataclass(frozen=True)
class Text:
    """A paragraph, a table cell, a help text or a message; `place` is a path or a command."""

    place: str
    text: str


@dataclass(frozen=True)
class Finding:
    """A problem in a sentence, and what to write instead."""

    place: str
    sentence: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}\n    {self.sentence}"


def sentences(text: str) -> list[str]:
    """Split a paragraph, in which code is already replaced by CODE, into sentences."""
    found: list[str] = []
    for part in _END.split(" ".join(text.split())):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += f" {part}"
        elif part:
            found.append(part)
    return found


def findings(text: Text) -> Iterator[Finding]:
    """Find the words to avoid and the long sentences in a text."""
    for sentence in sentences(text.text):
        for pattern, instead in _words():
            if found := pattern.search(sentence):
                yield Finding(text.place, sentence, f"«{found[0]}»; instead: {instead}")
        words = len([each for each in sentence.split() if re.search(r"\w", each)])
        if words > RULES["longest_sentence"]:
            yield Finding(text.place, sentence, f"{words} words: make it two sentences")


@cache
def _words() -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I), instead)
        for pattern, instead in RULES["words"].items()
    ]


def prose(page: str) -> Iterator[str]:
    """Return paragraphs, headings, list items and table cells of a Markdown page, without code."""
    for token in MarkdownIt().enable("table").parse(page):
        if token.type == "inline":
            parts = {"text": lambda each: each.content, "code_inline": lambda _: CODE}
            text = "".join(parts.get(each.type, _space)(each) for each in token.children or ())
            yield without_code(text)


def _space(token: Any) -> str:
    return " " if token.type in {"softbreak", "hardbreak"} else ""


def without_code(text: str) -> str:
    return _IS_CODE.sub(CODE, text)


def pages() -> Iterator[Text]:
    """Return the texts of all tracked Markdown pages; of the changelog only the unreleased part."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in sorted(filter(None, names.split("\0"))):
        path = ROOT / name
        if not path.exists():
            continue
        page = path.read_text()
        if name == "CHANGELOG.md":
            page = "\n## ".join(page.split("\n## ")[:2])
        for text in prose(page):
            yield Text(name, text)


def help_texts() -> Iterator[Text]:
    """Return the `--help` texts of every command, argument and option."""
    context = typer.Context(typer.main.get_command(cli.app), info_name="stunwatch")
    yield from _help_of(context)


def _help_of(context: Any) -> Iterator[Text]:
    command, place = context.command, f"{context.command_path} --help"
    for shown in (command.help, command.epilog, *(_help(each) for each in command.params)):
        for paragraph in re.split(r"\n\s*\n", shown or ""):
            lines = [each.strip("\b ") for each in paragraph.splitlines()]
            # An example is a separate line that begins with the command.
            said = [each for each in lines if not re.match(r"(?:\$ )?(?:stunwatch|make) ", each)]
            yield Text(place, without_code(_MARKUP.sub("", " ".join(said))))
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if not child.hidden:
                yield from _help_of(typer.Context(child, info_name=name, parent=context))


def _help(parameter: Any) -> str:
    return getattr(parameter, "help", None) or ""


def messages() -> Iterator[Text]:
    """Return the literals in calls whose text users see: `messages` in words.yaml."""
    for folder in ("flink-jobs", "infra", "ingest", "stunwatch", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for text in literals(ast.parse(path.read_text()), frozenset(RULES["messages"])):
                for line in text.splitlines():
                    yield Text(str(path.relative_to(ROOT)), line)


def literals(tree: ast.AST, calls: frozenset[str]) -> Iterator[str]:
    """Return the strings passed to calls of these names; inserted values become CODE."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in calls:
            for argument in (*node.args, *(each.value for each in node.keywords)):
                for text in _strings(argument):
                    yield without_code(_MARKUP.sub("", text))


def _strings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.Constant) else CODE for each in node.values)
        yield "".join(map(str, parts))
    else:
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)


def judge(texts: Iterable[Text], exempt: Iterable[str]) -> list[str]:
    """Return findings outside the exempted places, and exempted places without a finding."""
    found = [finding for text in texts for finding in findings(text)]
    left = set(exempt) - {each.place for each in found}
    return [
        *(str(each) for each in found if each.place not in set(exempt)),
        *(f"{place}: nothing is found, take it out of words.yaml" for place in sorted(left)),
    ]


def main() -> int:
    """Print the findings; return 1 if there are any. `--all` includes the exempted places."""
    exempt = () if "--all" in sys.argv else RULES["exempt"]
    told = judge([*pages(), *help_texts(), *messages()], exempt)
    print("\n".join(told))
    return min(len(told), 1)


if __name__ == "__main__":
    sys.exit(main())
