"""The content of messages, and how text from logs is neutralised."""

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


def test_the_message_of_an_opened_incident() -> None:
    message = message_of(incident(), "opened", "", "")
    assert message.title == "[critical] Host one loses its storage"
    for said in (
        "three devices at once",
        "7 stuns, worst 2.346 s; DAVG up to 412 ms.",
        "Hosts: esx01.lab.example",
        "VMs: sql01, web01",
        "1. Look at the HBA of esx01 (no other host sees it) [KB 1004684]",
        "ScsiDeviceIO: a line",
        f"Details: stunwatch report {message.incident_id}",
    ):
        assert said in message.body


def test_a_risky_step_shows_its_precondition() -> None:
    step = {"step": "Reset", "because": "stuck", "kb": None, "against": None}
    risk = {"precondition": "It holds", "risk_level": "high", "risk": "It aborts the I/O"}
    safe = {"precondition": "None: read-only", "risk_level": "none", "risk": "None: so"}
    steps = [{**step, **safe}, {**step, **risk}]
    body = message_of(incident(next_steps=steps), "opened", "", "").body
    assert body.count("Check first:") == 1
    assert "2. Reset (stuck)\nCheck first: It holds\nRisk (high): It aborts the I/O\n" in body


def test_the_message_of_a_closed_incident() -> None:
    message = message_of(closed(), "closed", "critical", "https://sw.example/r/{incident_id}")
    assert message.title.startswith("[critical] closed: Host one")
    assert "until 2026-03-01 02:12:00 UTC" in message.body
    assert "Next steps" not in message.body
    assert message.body.endswith(f"Details: https://sw.example/r/{message.incident_id}")


def test_a_rise_in_severity_shows_both_severities() -> None:
    message = message_of(incident(), "worse", "notice", "")
    assert "Severity rose from notice to critical." in message.body


def test_long_lists_and_lines_are_cut_but_the_link_is_not() -> None:
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
def test_log_text_becomes_no_markup_link_or_mention(written: str, forbidden: str) -> None:
    assert forbidden not in harmless(written)
    message = message_of(
        incident(verdict=written, vms=[written], evidence=[written], hosts=[written]),
        "opened",
        "",
        "",
    )
    assert forbidden not in message.title + message.body
    assert "\n" not in message.title


def test_harmless_text_is_unchanged() -> None:
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
def test_the_title_is_the_first_clause_of_the_verdict(verdict: str, clause: str) -> None:
    assert first_clause(verdict) == clause


def test_a_digest_contains_every_incident() -> None:
    one = message_of(incident("one"), "opened", "", "")
    two = message_of(incident("two"), "opened", "", "")
    digest = digest_of([one, two])
    assert digest.title == "2 messages from quiet hours"
    for each in (one, two):
        assert each.title in digest.body
        assert each.report in digest.body
    assert digest_of([one]).title == one.title
