"""What a message says, and what of the logs it does not let through."""

from __future__ import annotations

import pytest

from stunwatch.alerts.messages import (
    BODY_LENGTH,
    TITLE_LENGTH,
    digest_of,
    first_clause,
    harmless,
    message_of,
)
from tests.alerts.made_incidents import closed, incident


def test_an_incident_that_opens() -> None:
    message = message_of(incident(), "opened", "", "")
    assert message.title == "[critical] Host one loses its storage"
    for said in (
        "three devices at once",
        "7 stuns, the worst 2.346 s; DAVG up to 412 ms.",
        "Hosts: esx01.lab.example",
        "VMs: sql01, web01",
        "1. Look at the HBA of esx01 (no other host sees it) [KB 1004684]",
        "ScsiDeviceIO: a line",
        f"More: stunwatch report {message.incident_id}",
    ):
        assert said in message.body


def test_an_incident_that_closes() -> None:
    message = message_of(closed(), "closed", "critical", "https://sw.example/r/{incident_id}")
    assert message.title.startswith("[critical] over: Host one")
    assert "until 2026-03-01 02:12:00 UTC" in message.body
    assert "Do next" not in message.body
    assert message.body.endswith(f"More: https://sw.example/r/{message.incident_id}")


def test_what_rose_says_from_where() -> None:
    message = message_of(incident(), "worse", "notice", "")
    assert "It was notice and is critical now." in message.body


def test_long_lists_and_long_lines_are_cut_and_the_link_is_not() -> None:
    many = incident(
        vms=[f"vm{number:04}" for number in range(5_000)],
        evidence=["x" * 9_000] * 20,
        verdict="v" * 9_000,
    )
    message = message_of(many, "opened", "", "")
    assert len(message.title) <= TITLE_LENGTH
    assert len(message.body) <= BODY_LENGTH
    assert message.body.endswith(message.incident_id)


@pytest.mark.parametrize(
    ("written", "forbidden"),
    [
        ("mail @channel now", "@channel"),
        ("<!channel> <@U123> <b>bold</b>", "<!"),
        ("<script>alert(1)</script>", "<script"),
        ("[click](http://evil.example)", "]("),
        ("see http://evil.example/x", "http://"),
        ("see www.evil.example", "www."),
        ("**bold** `code` ~~gone~~ ||spoiler||", "**"),
        ("one\r\nSubject: two", "\r"),
        ("right \u202e to left", "\u202e"),
        ("&lt;b&gt;", "&lt;"),
    ],
)
def test_what_a_log_says_has_no_meaning_to_a_chat(written: str, forbidden: str) -> None:
    assert forbidden not in harmless(written)
    message = message_of(
        incident(verdict=written, vms=[written], evidence=[written], hosts=[written]),
        "opened",
        "",
        "",
    )
    assert forbidden not in message.title + message.body
    assert "\n" not in message.title


def test_what_means_nothing_stays_as_it_is() -> None:
    for plain in (
        "naa.6000c29f_x on esx01 (a > b, 5 * 3)",
        "vmhba2:C0:T0:L1 H:0x0 D:0x18",
        "/vmfs",
    ):
        assert harmless(plain) == plain


@pytest.mark.parametrize(
    ("verdict", "clause"),
    [
        ("Host esx01 is slow; its HBA resets.", "Host esx01 is slow"),
        ("Array or fabric: 4 of 5 hosts.", "Array or fabric"),
        ("DAVG of naa.6000c29f is 1.5 s.", "DAVG of naa.6000c29f is 1.5 s"),
        ("One. Two.", "One"),
    ],
)
def test_the_first_clause_is_the_title(verdict: str, clause: str) -> None:
    assert first_clause(verdict) == clause


def test_a_digest_names_every_incident_once_more() -> None:
    one = message_of(incident("one"), "opened", "", "")
    two = message_of(incident("two"), "opened", "", "")
    digest = digest_of([one, two])
    assert digest.title == "2 messages of the quiet hours"
    for each in (one, two):
        assert each.title in digest.body
        assert each.report in digest.body
    assert digest_of([one]).title == one.title
