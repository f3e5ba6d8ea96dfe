"""Parsing and validation of alerts.yaml. The file shows no secrets."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pytest
import yaml

from stunwatch.alerts.configuration import QuietHours, is_configured, load, parse
from stunwatch.alerts.sending import why_no_receiver
from stunwatch.errors import UserError
from stunwatch.settings import ROOT, load_settings

EXAMPLE = ROOT / "infra/alerts/alerts.yaml"
WEBHOOK = {"name": "hook", "url": "json://127.0.0.1:1/"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_shipped_file_defines_no_receivers() -> None:
    settings = load_settings({})
    assert settings.alerts == EXAMPLE
    assert not is_configured(settings)
    assert load(settings).receivers == ()


def test_every_option_of_the_shipped_file_can_be_uncommented(tmp_path: Path) -> None:
    """`#` marks an option that is disabled, `##` marks prose."""
    secret = tmp_path / "url"
    secret.write_text("slack://a/b/c\n")
    lines = [
        re.sub("^# ?", "", line)
        for line in EXAMPLE.read_text().splitlines()
        if not line.startswith("##")
    ]
    text = yaml.safe_load("\n".join(lines).replace("/run/secrets/storage_team_url", str(secret)))
    configuration = parse(text, {"STUNWATCH_ON_CALL_URL": "json://hook.example/"})
    on_call, team, alertmanager = configuration.receivers
    assert (on_call.url, on_call.severities) == ("json://hook.example/", ("critical",))
    assert (team.url, team.is_quiet_at_night) == ("slack://a/b/c", True)
    assert alertmanager.kind == "alertmanager"
    assert configuration.quiet_hours is not None
    assert configuration.quiet_hours.start == time(22)
    assert configuration.retry.longest_seconds == 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ({"recievers": []}, "recievers: unknown name; allowed: receivers, quiet_hours,"),
        (
            {"receivers": [{**WEBHOOK, "uri": ""}]},
            "receivers.hook.uri: unknown name; allowed: name,",
        ),
        ({"retry": {"first": 1}}, "retry.first: unknown name; allowed: first_seconds,"),
        (
            {"receivers": [{"name": "a\nb", "url": "json://x"}]},
            "receivers.0.name: must be one word",
        ),
        ({"receivers": [{"name": {"a": 1}, "url": "json://x"}]}, "receivers.0.name: "),
        ({"quiet_hours": {"from": 2200, "to": "06:00"}}, "a time like"),
        ({"quiet_hours": {"from": "22:00Z", "to": "06:00"}}, "must have no zone"),
        ({"receivers": {"a": 1}}, "must be a list"),
        ({"receivers": [{"url": "json://x"}]}, "receivers.0.name: is missing"),
        ({"receivers": [{"name": "a b", "url": "json://x"}]}, "must be one word"),
        ({"receivers": [WEBHOOK, WEBHOOK]}, "two receivers have the name hook"),
        ({"receivers": [{"name": "a"}]}, "either url or url_file"),
        ({"receivers": [{"name": "a", "url": "${NO_SUCH}"}]}, "needs NO_SUCH"),
        ({"receivers": [{"name": "a", "url": "hook.example"}]}, "no ://"),
        (
            {"receivers": [{"name": "a", "url_file": "/no/such"}]},
            "a: cannot read url_file",
        ),
        (
            {"receivers": [{**WEBHOOK, "severities": ["bad"]}]},
            "hook.severities.0: must be",
        ),
        (
            {"receivers": [{**WEBHOOK, "kind": "pager"}]},
            "hook.kind: must be 'apprise' or",
        ),
        ({"receivers": [{**WEBHOOK, "kind": "alertmanager"}]}, "begin with http"),
        ({"quiet_hours": {"from": "late", "to": "06:00"}}, "a time like"),
        (
            {"quiet_hours": {"from": "22:00", "to": "06:00", "hold": ["critical"]}},
            "hold.0: must be",
        ),
        ({"quiet_hours": {"from": "22:00", "to": "06:00", "zone": "Vienna"}}, "unknown time zone"),
        ({"receivers": ["hook"]}, "receivers.0: must be a mapping"),
        ({"quiet_hours": {"from": "22:00"}}, "quiet_hours.to: is missing"),
        (["receivers"], "must be a mapping"),
        ({"retry": {"longest_seconds": float("inf")}}, "must be a finite number"),
        ({"retry": {"first_seconds": 0}}, "must be greater than 0"),
    ],
)
def test_each_mistake_is_reported_in_one_sentence(text: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        parse(text, {})
    assert "\n" not in str(caught.value)
    assert "json://" not in str(caught.value)


def test_a_url_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("receivers: [{name: hook, url: 'json://user:sesame@hook.example/'}]\n")
    configuration = load(replace(load_settings({}), alerts=file))
    assert "sesame" not in repr(configuration)
    assert configuration.receivers[0].shown_url == "json://…"


def test_a_file_that_cannot_be_parsed_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("receivers: [")
    settings = replace(load_settings({}), alerts=file)
    assert is_configured(settings)
    with pytest.raises(UserError, match=r"Cannot read .*alerts\.yaml"):
        load(settings)


def test_a_url_that_apprise_does_not_support_is_reported() -> None:
    configuration = parse({"receivers": [{"name": "a", "url": "pigeon://loft"}]}, {})
    assert "does not support" in why_no_receiver(configuration.receivers[0])
    configuration = parse({"receivers": [WEBHOOK]}, {})
    assert not why_no_receiver(configuration.receivers[0])


def quiet(**given: Any) -> QuietHours:
    found = parse({"quiet_hours": {"from": "22:00", "to": "06:00", **given}}, {}).quiet_hours
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("moment", "is_quiet"),
    [
        ("2026-03-01T21:59", False),
        ("2026-03-01T22:00", True),
        ("2026-03-02T03:00", True),
        ("2026-03-02T05:59", True),
        ("2026-03-02T06:00", False),
    ],
)
def test_quiet_hours_may_span_midnight(moment: str, is_quiet: bool) -> None:
    assert quiet().contains(at(moment)) == is_quiet


def test_quiet_hours_follow_daylight_saving_time() -> None:
    vienna = quiet(zone="Europe/Vienna")
    assert vienna.contains(at("2026-01-10T04:30"))
    assert not vienna.contains(at("2026-07-10T04:30"))


def test_times_without_quotes_are_parsed_correctly() -> None:
    assert parse(yaml.safe_load("quiet_hours: {from: 22:00, to: 6:30}"), {}).quiet_hours == quiet(
        to="06:30"
    )
