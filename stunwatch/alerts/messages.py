"""Formats the message about a change of an incident.

Log text is untrusted, and users choose the names of VMs. None of it may become a link, a mention,
markup or a second title in a chat or mail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stunwatch.incidents.wording import counted

TITLE_LENGTH = 160
BODY_LENGTH = 3_500
"""Slack cuts messages at 4,000 characters; Teams and mail accept more."""

SHOWN_NAMES = 8
SHOWN_STEPS = 3
SHOWN_LINES = 3

_PREFIX = {"opened": "", "worse": "worse: ", "closed": "closed: ", "withdrawn": "withdrawn: "}

_CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
# A zero-width space disables each of these and does not change how the text looks.
_MEANING = re.compile(
    r"@(?=\w)|(?<=:)/(?=/)|\](?=\()|<(?=[!@#/a-zA-Z])|&(?=\w|#)|\b[wW](?=[wW]{2}\.)"
)
_MARKUP = re.compile(r"([*_`~|]){2,}|(?m:^)[^\S\n]*[#>]+")


@dataclass(frozen=True)
class Message:
    """A message to a receiver. It is stored until delivery, so all its values are plain."""

    title: str
    body: str
    change: str
    severity: str
    incident_id: str
    scope: str
    opened_at: str
    ended_at: str
    """Empty while the incident is open."""
    severity_before: str
    """The severity before it rose. Alertmanager needs it, because an alert is identified by its
    labels.
    """
    report: str
    """Location of the report: a URL or a command."""


def harmless(text: str) -> str:
    """Neutralise text from a log, so that a chat or mail shows it as plain text."""
    text = _CONTROL.sub(" ", text)
    text = _MARKUP.sub(lambda found: "\u200b".join(found[0]), text)
    return _MEANING.sub(lambda found: found[0] + "\u200b", text)


def message_of(
    incident: Mapping[str, Any], change: str, severity_before: str, report_url: str
) -> Message:
    """Return the message about this change."""
    incident_id = str(incident["event_id"])
    severity = str(incident["severity"])
    report = (
        report_url.replace("{incident_id}", incident_id)
        if report_url
        else f"stunwatch report {incident_id}"
    )
    title = f"[{severity}] {_PREFIX[change]}{first_clause(str(incident['verdict']))}"
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
    """Combine all messages that were held during quiet hours into one."""
    last = messages[-1]
    lines = [f"{each.opened_at[:16].replace('T', ' ')} UTC  {each.title}" for each in messages]
    reports = dict.fromkeys(each.report for each in messages)
    body = "\n".join([*lines, "", "Details:", *reports])
    title = f"{len(messages):,} messages from quiet hours"
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


def has_risk(step: Mapping[str, Any]) -> bool:
    """True if a next step can cause damage. Steps of older versions have no risk level."""
    return step.get("risk_level") in ("low", "high")


def first_clause(verdict: str) -> str:
    """Return the part of a sentence before its first punctuation mark."""
    return re.split(r"[;:.]\s|\s[—–(]|\.$", verdict, maxsplit=1)[0]  # noqa: RUF001


def one_line(text: str, most: int) -> str:
    """Return harmless text on one line, cut to `most` characters."""
    return cut(harmless(" ".join(text.split())), most)


def cut(text: str, most: int) -> str:
    """Cut a text to `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _body(incident: Mapping[str, Any], change: str, severity_before: str, report: str) -> str:
    paragraphs = [harmless(str(incident["verdict"]))]
    if change == "worse":
        paragraphs.append(f"Severity rose from {severity_before} to {incident['severity']}.")
    if change == "withdrawn":
        paragraphs.append(
            "It matches the usual pattern: no alert."
            if incident["state"] == "noted"
            else "Late log lines show that there was no incident."
        )
    paragraphs.append("\n".join(_facts(incident)))
    if change in ("opened", "worse") and (steps := list(_steps(incident))):
        paragraphs.append("Next steps:\n" + "\n".join(steps))
    if lines := [str(each) for each in incident.get("evidence") or []][:SHOWN_LINES]:
        paragraphs.append("Log lines:\n" + "\n".join(f"  {one_line(each, 240)}" for each in lines))
    # The link does not come from a log: it is neither neutralised nor cut.
    end = f"\n\nDetails: {report}"
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
        numbers.append(f"{counted(incident['stun_count'], 'stun')}, worst {worst}")
    if incident.get("conflict_count"):
        numbers.append(counted(incident["conflict_count"], "reservation conflict"))
    if incident.get("peak_davg_ms") is not None:
        numbers.append(f"DAVG up to {incident['peak_davg_ms']:,.0f} ms")
    if numbers:
        yield "; ".join(numbers) + "."
    for word in ("hosts", "datastores", "devices", "paths", "vms"):
        if names := incident.get(word):
            label = "VMs" if word == "vms" else word.capitalize()
            yield f"{label}: {_names(names)}"
    scope = str(incident["scope"]).replace("_", " ")
    yield f"Scope: {scope}; confidence: {incident['confidence']}."


def _steps(incident: Mapping[str, Any]) -> Iterable[str]:
    for number, step in enumerate((incident.get("next_steps") or [])[:SHOWN_STEPS], 1):
        text = f"{number}. {step['step']}"
        if step.get("because"):
            text += f" ({step['because']})"
        if step.get("kb"):
            text += f" [KB {step['kb']}]"
        yield one_line(text, 300)
        if step.get("against"):
            yield one_line(f"But: {step['against']}", 300)
        if has_risk(step):
            yield one_line(f"Check first: {step['precondition']}", 300)
            yield one_line(f"Risk ({step['risk_level']}): {step['risk']}", 300)


def _names(names: list[str]) -> str:
    shown = ", ".join(one_line(name, 80) for name in names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def _moment(text: Any) -> str:
    return f"{str(text)[:19].replace('T', ' ')} UTC"
