"""An incident's change as a message.

What stands in logs is data, and a VM's name is a user's: nothing of it may become a link, a mention
of everybody, markup or a second title at the receiver's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TITLE_LENGTH = 160
BODY_LENGTH = 3_500
"""Slack cuts at 4 000, Teams and mail take more."""

SHOWN_NAMES = 8
SHOWN_STEPS = 3
SHOWN_LINES = 3

_BEHIND = {"opened": "", "worse": "worse: ", "closed": "over: ", "withdrawn": "withdrawn: "}

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# A zero-width space takes their meaning from all of these and leaves the text as it reads.
_MEANING = re.compile(
    r"@(?=\w)|(?<=:)/(?=/)|\](?=\()|<(?=[!@#/a-zA-Z])|&(?=\w|#)|\b[wW](?=[wW]{2}\.)"
)
_MARKUP = re.compile(r"([*_`~|]){2,}|(?m:^)\s*[#>]+")


@dataclass(frozen=True)
class Message:
    """What a receiver is sent. It is kept until it is delivered, so it holds plain values alone."""

    title: str
    body: str
    change: str
    severity: str
    incident_id: str
    scope: str
    opened_at: str
    ended_at: str
    """Empty while it goes on."""
    severity_before: str
    """Where it rose: Alertmanager knows an alert by its labels."""
    report: str
    """Where to read more: a URL or a command."""


def harmless(text: str) -> str:
    """Text from a log, so that a chat or mail shows it and nothing else."""
    text = _CONTROL.sub(" ", text)
    text = _MARKUP.sub(lambda found: "\u200b".join(found[0]), text)
    return _MEANING.sub(lambda found: found[0] + "\u200b", text)


def message_of(
    incident: Mapping[str, Any], change: str, severity_before: str, report_url: str
) -> Message:
    """The message that tells this change."""
    incident_id = str(incident["event_id"])
    severity = str(incident["severity"])
    report = (
        report_url.replace("{incident_id}", incident_id)
        if report_url
        else f"stunwatch report {incident_id}"
    )
    title = f"[{severity}] {_BEHIND[change]}{first_clause(str(incident['verdict']))}"
    return Message(
        title=one_line(title, TITLE_LENGTH),
        body=_body(incident, change, severity_before, report),
        change=change,
        severity=severity,
        incident_id=incident_id,
        scope=str(incident["scope"]),
        opened_at=str(incident["opened_at"]),
        ended_at=str(incident.get("closed_at") or "") if change != "withdrawn" else "now",
        severity_before=severity_before,
        report=report,
    )


def digest_of(messages: list[Message]) -> Message:
    """What was held back in quiet hours, in one message."""
    last = messages[-1]
    lines = [f"{each.opened_at[:16].replace('T', ' ')} UTC  {each.title}" for each in messages]
    reports = dict.fromkeys(each.report for each in messages)
    body = "\n".join([*lines, "", "More:", *reports])
    title = f"{len(messages)} messages of the quiet hours"
    if len(messages) == 1:
        title = last.title
    return Message(
        title=title,
        body=cut(body, BODY_LENGTH),
        change="digest",
        severity=last.severity,
        incident_id=last.incident_id,
        scope=last.scope,
        opened_at=last.opened_at,
        ended_at=last.ended_at,
        severity_before="",
        report=last.report,
    )


def first_clause(verdict: str) -> str:
    """The beginning of a sentence, up to where it takes its first breath."""
    return re.split(r"[;:.]\s|\s[—–(]|\.$", verdict, maxsplit=1)[0]  # noqa: RUF001


def one_line(text: str, most: int) -> str:
    """Harmless text on one line."""
    return cut(harmless(" ".join(text.split())), most)


def cut(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _body(incident: Mapping[str, Any], change: str, severity_before: str, report: str) -> str:
    paragraphs = [harmless(str(incident["verdict"]))]
    if change == "worse":
        paragraphs.append(f"It was {severity_before} and is {incident['severity']} now.")
    if change == "withdrawn":
        paragraphs.append(
            "It is as every week at this hour: it is noted and alarms nobody."
            if incident["state"] == "noted"
            else "Lines that came late show that there was no such incident."
        )
    paragraphs.append("\n".join(_facts(incident)))
    if change in ("opened", "worse") and (steps := list(_steps(incident))):
        paragraphs.append("Do next:\n" + "\n".join(steps))
    if lines := [str(each) for each in incident.get("evidence") or []][:SHOWN_LINES]:
        paragraphs.append(
            "The log says:\n" + "\n".join(f"  {one_line(each, 240)}" for each in lines)
        )
    # The link is ours: it must neither be cut off nor made harmless.
    end = f"\n\nMore: {report}"
    return cut("\n\n".join(paragraphs), BODY_LENGTH - len(end)) + end


def _facts(incident: Mapping[str, Any]) -> Iterable[str]:
    since = f"Since {_moment(incident['opened_at'])}"
    yield (
        f"{since}, until {_moment(incident['closed_at'])}."
        if incident.get("closed_at")
        else f"{since}."
    )
    numbers = []
    if incident.get("stun_count"):
        worst = f"{(incident.get('worst_stun_us') or 0) / 1e6:,.3f} s"
        numbers.append(f"{incident['stun_count']:,} stuns, the worst {worst}")
    if incident.get("conflict_count"):
        numbers.append(f"{incident['conflict_count']:,} reservation conflicts")
    if incident.get("peak_davg_ms") is not None:
        numbers.append(f"DAVG up to {incident['peak_davg_ms']:,.0f} ms")
    if numbers:
        yield "; ".join(numbers) + "."
    for word in ("hosts", "datastores", "devices", "vms"):
        if names := incident.get(word):
            label = "VMs" if word == "vms" else word.capitalize()
            yield f"{label}: {_names(names)}"
    yield f"Scope: {incident['scope']}; confidence: {incident['confidence']}."


def _steps(incident: Mapping[str, Any]) -> Iterable[str]:
    for number, step in enumerate((incident.get("next_steps") or [])[:SHOWN_STEPS], 1):
        text = f"{number}. {step['step']}"
        if step.get("because"):
            text += f" ({step['because']})"
        if step.get("kb"):
            text += f" [KB {step['kb']}]"
        yield one_line(text, 300)
        if step.get("against"):
            yield one_line(f"   Against it: {step['against']}", 300)


def _names(names: list[str]) -> str:
    shown = ", ".join(one_line(name, 80) for name in names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def _moment(text: Any) -> str:
    return f"{str(text)[:19].replace('T', ' ')} UTC"
