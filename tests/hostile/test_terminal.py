"""Text from logs stays data in every output: no commands, markup or hidden characters."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.alerts.messages import harmless
from stunwatch.audit.events import Comparison
from stunwatch.audit.files import StoredFile
from stunwatch.cli.audit import Findings, show
from stunwatch.live_view.screen import describe
from stunwatch.printable import Terminal, echo, printable, printable_lines
from stunwatch.replaying import Outcome

HOSTILE = {
    "clear screen": "a\x1b[2Jb",
    "title": "a\x1b]0;x\x07b",
    "link": "a\x1b]8;;http://x.example\x1b\\b\x1b]8;;\x1b\\",
    "clipboard": "a\x1b]52;c;QUFB\x07b",
    "C1": "a\x9b2Jb\x9d52;c;QUFB\x9c",
    "carriage return": "a\rb",
    "backspace": "a\b\b\bb",
    "bell": "a\x07b",
    "vertical": "a\x0b\x0c\x85\u2028b",
    "bidi": "a\u202egol\u202c\u2066\u061cb",
    "invisible": "a\u200b\u200d\u2060\ufeff\xad\U000e0041b",
    "surrogate": "a\udcffb",
    "NUL": "a\x00b\x7f",
    "closing tag": "x[/foo].log",
    "open tag": "[red]x[link=http://x.example]y",
    "emoji code": "x:skull:y",
    "wide": "\uff41\u4e16" * 20,
    "long": "x" * 5000,
}
OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Sequences that rich itself writes."""


def assert_harmless(output: str) -> None:
    rest = COLOUR.sub("", output)
    assert not OBEYED.search(rest)
    assert "\x1b" not in rest


def printed(show_on: Callable[[Console], None]) -> str:
    stream = io.StringIO()
    show_on(Terminal(file=stream, force_terminal=True, width=300, color_system="standard"))
    return stream.getvalue()


def table(text: str) -> Table:
    made = Table(text, "b", title=text, caption=text)
    made.add_row(text, Text(text, "red"))
    return made


SHOWN: dict[str, Callable[[str], str]] = {
    "text": lambda text: printed(lambda to: to.print(f"file {text}: bad", style="red")),
    "table": lambda text: printed(lambda to: to.print(table(text))),
    "replay": lambda text: printed(
        lambda to: to.print(Outcome("r", missing={text: 1}, problems=[f"{text}: bad"]).summary)
    ),
    "audit": lambda text: printed(
        lambda to: show(
            Findings(
                events={name: Comparison() for name in ("stuns", "sync_cr_countdowns")},
                gaps=[StoredFile("0" * 16, text, "syslog", text, text, text, 1, ((0, 1),))],
            ),
            {"0" * 16: text},
            5,
            to,
        )
    ),
    "watch": lambda text: printed(
        lambda to: to.print(
            describe(
                "events.stun",
                {
                    "vm": text,
                    "host": text,
                    "datastore": text,
                    "started_at": "2024-05-06T07:08:09Z",
                    "ended_at": "2024-05-06T07:08:09Z",
                    "duration_us": 7,
                    "cause": text,
                    "severity": "normal",
                },
            )
        )
    ),
    "printable": printable,
    "lines": printable_lines,
    "alerts": lambda text: harmless(text).replace("\u200b", "").replace("\u200d", ""),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("place", SHOWN)
def test_text_from_logs_is_shown_as_data(place: str, text: str) -> None:
    output = SHOWN[place](text)
    assert_harmless(output)
    if place not in ("alerts", "watch", "table", "audit"):
        if "[" in text and "\x1b" not in text:
            assert text in COLOUR.sub("", output)
        assert "\u2620" not in output


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_logs_shows_the_output_of_a_component_as_data(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUNWATCH_HOME", str(tmp_path))
    monkeypatch.setenv("STUNWATCH_BUILD", str(tmp_path))
    (tmp_path / "logs").mkdir()
    content = f"before\n{text}\nafter\n".encode(errors="surrogateescape") + b"\xff\x9b2J\n"
    (tmp_path / "logs/kafka.log").write_bytes(content)
    done = CliRunner().invoke(cli.app, ["logs", "kafka"])
    assert done.exit_code == 0
    assert_harmless(done.stdout)
    assert done.stdout.startswith("before\n")


def test_echo_keeps_line_feeds_and_adds_none(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\nb\x1b[2J\n", end="")
    assert capsys.readouterr().out == "a\nb␛[2J\n"
