"""The check for plain English finds words to avoid and long sentences, but ignores code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from tests.documentation.plain import CODE, Text, findings, judge, literals, prose, sentences

WORDS = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text())
LONG = "The host sends " + "one line and " * 11 + "ends."


def found(text: str) -> list[str]:
    return [each.what for each in findings(Text("page.md", text))]


@pytest.mark.parametrize(
    "text",
    [
        "Usual hours are calculated daily.",
        "The log tells why.",
        "The VM stood still for 2 s.",
        "Tables are made anew.",
        "The incident alarms nobody.",
        "This value is no length of time.",
        LONG,
    ],
)
def test_a_word_to_avoid_or_a_long_sentence_is_found(text: str) -> None:
    assert len(found(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "You are told when the incident closes.",
        "The runbook describes it. In fact, it is short.",
        "ClickHouse Keeper is a product.",
        LONG.replace("and one", ", one", 1).replace("one line and ends", "one line. It ends"),
    ],
)
def test_a_plain_sentence_passes(text: str) -> None:
    assert found(text) == []


def test_code_is_not_checked() -> None:
    page = """
# Pages with `mutes`

Run `stunwatch simulate --evening`, or use --evening with sql/pumps and host_facts.

```
the log tells
```

| name | meaning |
|---|---|
| `origin` | the source |

<!-- made anew -->
"""
    texts = list(prose(page))
    assert texts == [
        f"Pages with {CODE}",
        f"Run {CODE}, or use {CODE} with {CODE} and {CODE}.",
        "name",
        "meaning",
        CODE,
        "the source",
    ]
    assert not any(map(found, texts))


def test_sentences_end_before_a_capital_letter_or_code() -> None:
    text = f"Stop it. {CODE} restarts it (e.g. Kafka). ESXi 7.0 U1 works, see No. 5! Fine?"
    assert sentences(text) == [
        "Stop it.",
        f"{CODE} restarts it (e.g. Kafka).",
        "ESXi 7.0 U1 works, see No. 5!",
        "Fine?",
    ]


def test_messages_are_the_literals_passed_to_listed_calls() -> None:
    source = 'raise errors.UserError(f"No {path}." + (" Try again." if x else "")); other("no")'
    assert [*literals(ast.parse(source), frozenset({"UserError"}))] == [
        f"No {CODE}.",
        " Try again.",
        "",
    ]


def test_an_exempted_place_without_a_finding_is_an_error() -> None:
    texts = [Text("a.md", "It goes on."), Text("b.md", "It continues.")]
    assert judge(texts, ["a.md"]) == []
    [finding] = judge(texts, [])
    assert finding.startswith("a.md: «goes on»; instead: continues")
    [stale] = judge(texts, ["a.md", "b.md"])
    assert stale.startswith("b.md")


def test_no_replacement_contains_a_word_to_avoid() -> None:
    for instead in WORDS["words"].values():
        assert found(instead) == []
