"""The page of a report from given rows: its contents, and that text from logs is escaped."""

from __future__ import annotations

import html
import re
import time
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from stunwatch.errors import UserError
from stunwatch.report.contents import find, step_of
from stunwatch.report.drawing import COLOURS, draw
from stunwatch.report.page import lasted, render
from stunwatch.report.questions import fill
from tests.report.made import (
    FIGURES,
    INCIDENT,
    MINUTE,
    NO_FIGURES,
    OPENED_AT,
    contents,
    evening,
    spot,
)

pytestmark = pytest.mark.integration

UTC = ZoneInfo("UTC")
HOSTILE = [
    "<script>alert(1)</script>",
    "${HOME} $x^2$ $\\frac{1}{0}$",
    "{{ 7 * 7 }}{% for %}",
    '" onload="alert(1)',
    "_hidden",
    "</svg></pre><img src=x>",
    "a\x1b[31mred\x00\u202egnp.exe",
    "虚拟机-ü-🖥",
]


class Reader(HTMLParser):
    """Parses a page like a browser: elements with attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_the_incident() -> None:
    text = Reader(render(contents(evening()), UTC)).text
    for said in (
        INCIDENT["verdict"],
        "scope: array or fabric",
        "confidence: high",
        "2012-03-19 02:10:00.000 UTC",
        "42 min 00 s",
        "237.088 s",
        "1,204.5 ms",
        "1 failed, 2 recovered",
        "2 of 12",
        "No inventory shows the LUN of ds-bronze.",
        "Check the path policy of these LUNs",
        "1021187",
        "An RDM may use the LUN",
        "Checkpoint_Unstun: vm stopped for 237087978 us",
        "Sync CR at 0",
        "Round Robin",
        "and 20 more",
        "sql01, 237 s",
        "snapshot remove (",
        "threshold 25 ms",
        "maximum of 3 others",
        "recovered (2)",
        "snapshot removed (3)",
        "time, UTC",
    ):
        assert said in text, said


def test_times_are_shown_in_the_requested_zone() -> None:
    text = Reader(render(contents(evening()), ZoneInfo("Asia/Kolkata"))).text
    assert "2012-03-19 07:40:00.000 +05:30" in text
    assert "time, Asia/Kolkata" in text
    assert "08:00" in text


def test_the_page_loads_no_other_resources() -> None:
    page = render(contents(evening()), UTC)
    for tag, attributes in Reader(page).elements:
        assert tag not in {"script", "link", "img", "iframe", "object", "image", "foreignobject"}
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            if name in {"src", "href", "xlink:href"}:
                assert value is not None
                assert value.startswith("#")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


@pytest.fixture(scope="module")
def usual() -> Reader:
    """Return the page of an incident without hostile names."""
    return Reader(render(contents(evening(20)), UTC))


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_logs_is_shown_as_text(usual: Reader, name: str) -> None:
    rows = evening(20)
    rows["timeline_stuns"].append(spot(OPENED_AT + MINUTE, 900_000_000, "unknown", name))
    for each in rows["timeline_latency"]:
        each["device"] = name
    rows["changes"][0]["title"] = name
    rows["longest_stuns"][0]["vm"] = name
    rows["evidence"][0]["line"] = name
    rows["affected_vms"][0]["vm"] = name
    rows["affected_devices"][0]["slow_on"] = [name]
    page = render(contents(rows, verdict=name, missing=[name], hosts=[name], evidence=[name]), UTC)
    seen = Reader(page)
    assert {tag for tag, _ in seen.elements} == {tag for tag, _ in usual.elements}
    assert {each for _, names in seen.elements for each in names} == {
        each for _, names in usual.elements for each in names
    }
    # Control characters become visible symbols, other characters are kept.
    shown = name.replace("\x1b", "␛").replace("\x00", "␀").replace("\u202e", "\ufffd")
    assert seen.text.count(shown) >= 6
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page)
    ElementTree.fromstring(draw(contents(rows), UTC))


def test_empty_sections_say_what_empty_means() -> None:
    bare: dict[str, Any] = {"next_steps": [], "missing": [], "evidence": [], "hosts": []}
    numbers = {"stun_count": 0, "worst_stun_us": 0, "conflict_count": 0, "peak_davg_ms": None}
    text = Reader(
        render(contents(None, NO_FIGURES, **bare, **numbers, closed_at=None, state="open"), UTC)
    ).text
    for said in (
        "ongoing",
        "incident, ongoing",
        "No stuns in this time range",
        "No esxtop samples and no latency messages in this time range",
        "No Sync CR count-downs in this time range",
        "No stuns in this incident.",
        "No log lines stored with this incident.",
    ):
        assert said in text, said
    assert "in the verdict" not in text


def test_a_step_shows_its_precondition_and_its_risk() -> None:
    text = Reader(render(contents(evening()), UTC)).text
    assert "No physical backup server uses the LUN" in text
    assert "high: It aborts the I/O of every host" in text


def test_latency_of_log_messages_is_drawn_without_esxtop() -> None:
    rows = {"timeline_episodes": evening()["timeline_episodes"]}
    text = Reader(draw(contents(rows), UTC)).text
    assert "No esxtop samples in this time range" in text
    assert "peak in log messages" in text


def test_numbers_that_changed_since_the_verdict_are_marked() -> None:
    text = Reader(render(contents(evening(), stun_count=7, peak_davg_ms=None), UTC)).text
    assert text.count("recalculated later") == 1
    assert "7 in the verdict;" in text


def test_each_number_has_its_query_for_a_shell() -> None:
    made = contents(evening())
    shown = re.findall(r'<pre>stunwatch sql "\n(.*?)\n"</pre>', render(made, UTC), re.S)
    assert {html.unescape(each) for each in shown} == {each.sql for each in made.answers.values()}


def test_thousands_of_stuns_make_a_small_page_quickly() -> None:
    rows = evening(3000)
    rows["timeline_latency"] *= 3
    began = time.process_time()
    page = render(contents(rows, FIGURES), UTC)
    assert time.process_time() - began < 5
    assert len(page) < 1_500_000


def test_the_drawing_is_reproducible_and_uses_the_page_s_colours() -> None:
    made = contents(evening())
    drawing = draw(made, UTC)
    assert drawing == draw(made, UTC)
    assert drawing.startswith("<svg")
    assert "var(--red)" in drawing
    assert not any(f": {each}" in drawing for each in COLOURS.values())


def test_values_are_filled_in_as_literals() -> None:
    sql = "WHERE a = {incident:UUID} AND b < {until_at:DateTime64(6)} + {step_s:UInt32}"
    filled = fill(sql, {"incident": "x", "until_at": OPENED_AT, "step_s": 7})  # type: ignore[dict-item]
    assert filled == (
        "WHERE a = x AND b < toDateTime64('2012-03-19 02:10:00.000000', 6, 'UTC') + 7"
    )


def test_a_spot_of_the_drawing_is_a_whole_number_of_seconds() -> None:
    assert step_of(OPENED_AT, OPENED_AT + MINUTE) == timedelta(seconds=1)
    assert step_of(OPENED_AT, OPENED_AT + timedelta(hours=50)) == timedelta(seconds=300)


@pytest.mark.parametrize(
    ("time", "words"),
    [(4.23, "4.23 s"), (727, "12 min 07 s"), (11_100, "3 h 05 min"), (187_300, "2 d 04 h")],
)
def test_durations_are_readable(time: float, words: str) -> None:
    assert lasted(timedelta(seconds=time)) == words


@pytest.mark.parametrize("wanted", ["", "no id", "1f0a%", "1F0A' OR 1"])
def test_an_invalid_id_is_an_error_before_any_query(wanted: str) -> None:
    with pytest.raises(UserError, match="incident list"):
        find(None, wanted)  # type: ignore[arg-type]
