"""Links on pages have a target, and the commands on pages exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from stunwatch import cli
from stunwatch.investigations import investigations
from tests.documentation.written import READ, Written, written
from tests.test_conventions import ROOT

COMMANDS = [each for page in READ for each in written(page)]
TARGETS = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.M))
# [text](page.md#anchor)
_ANCHORED = re.compile(r"\]\((?!https?://)([^)\s#]*)#([^)\s]+)\)")
_SYSLOG_ID = re.compile(r'vmx\.log\.syslogID = "(\w+)"')
ENDS_AT_ONCE = {"--help", "--version", "--install-completion", "--show-completion"}
UsageError: Any = typer.BadParameter.__base__
_NO_WORDS = re.compile(r"[^\w\- ]")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {_NO_WORDS.sub("", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_with_an_anchor_leads_to_a_heading(page: Path) -> None:
    for path, anchor in _ANCHORED.findall(page.read_text()):
        assert anchor in anchors(page.parent / path if path else page)


def test_the_index_names_every_page() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text()
    pages = [path.name for path in docs.glob("*.md") if path.name != "README.md"]
    folders = [f"{path.parent.name}/" for path in docs.glob("*/*.md")]
    for name in {*pages, *folders}:
        assert f"({name}" in index, name


def test_the_example_vm_is_not_in_the_demo() -> None:
    """Otherwise the demo's longer stuns would be listed before those of the reader's VM."""
    [vm] = {each for page in READ for each in _SYSLOG_ID.findall(page.read_text())}
    assert any(f"vm={vm}" in each.words for each in COMMANDS)
    folders = (ROOT / "stunwatch/demo/incident").glob("*/vmfs/volumes/*/*")
    demos = {folder.name for folder in folders}
    assert "sql01" in demos
    assert vm not in demos


def parse(words: tuple[str, ...], *, is_whole: bool) -> None:
    """Parse the words as the command line does, without running them. Raises UsageError.

    A command that is quoted in part can lack words, or contain placeholders instead of values.
    """
    if words[1:2] and words[1] in ENDS_AT_ONCE:
        return  # parsing --install-completion would install it
    command, name, rest = typer.main.get_command(cli.app), "stunwatch", list(words[1:])
    while True:
        is_group = hasattr(command, "resolve_command")
        if is_group and not rest:
            assert not is_whole, f"{name} is a group of commands"
            return
        try:
            context = command.make_context(name, rest)
        except typer.BadParameter:
            if is_whole:
                raise
            return
        if not is_group:
            return
        left = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, left)


@pytest.mark.parametrize("each", COMMANDS, ids=str)
def test_every_command_exists(each: Written) -> None:
    program, *words = each.words
    if program == "make":
        assert {word for word in words if "=" not in word} <= TARGETS
    elif program == "fluent-bit":
        assert (ROOT / words[words.index("-c") + 1]).is_file()
    else:
        parse(each.words, is_whole=each.kind != "quoted")
        if words[0] == "sql" and len(words) > 1 and words[1].isidentifier() and words[1].islower():
            assert words[1] in investigations()


def test_an_unknown_command_is_found() -> None:
    for words in (("nothing",), ("sql", "--nothing"), ("incident", "nothing"), ("report",)):
        with pytest.raises(UsageError):
            parse(("stunwatch", *words), is_whole=True)
