"""alerts.yaml: what it means, what is wrong with it, and that it holds no secret."""

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


def test_the_shipped_file_tells_nobody() -> None:
    settings = load_settings({})
    assert settings.alerts == EXAMPLE
    assert not is_configured(settings)
    assert load(settings).receivers == ()


def test_every_default_of_the_shipped_file_can_be_switched_on(tmp_path: Path) -> None:
    """One # is an option switched off, two are prose."""
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
    assert configuration.longest_retry_s == 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ({"recievers": []}, "'recievers', which is not one of"),
        ({"receivers": {"a": 1}}, "must be a list"),
        ({"receivers": [{"url": "json://x"}]}, "must be one word"),
        ({"receivers": [{"name": "a b", "url": "json://x"}]}, "must be one word"),
        ({"receivers": [WEBHOOK, WEBHOOK]}, "two receivers are named hook"),
        ({"receivers": [{"name": "a"}]}, "either url or url_file"),
        ({"receivers": [{"name": "a", "url": "${NO_SUCH}"}]}, "needs NO_SUCH"),
        ({"receivers": [{"name": "a", "url": "hook.example"}]}, "no ://"),
        ({"receivers": [{"name": "a", "url_file": "/no/such"}]}, "cannot be read"),
        ({"receivers": [{**WEBHOOK, "severities": ["bad"]}]}, "'bad', which is not one of"),
        ({"receivers": [{**WEBHOOK, "kind": "pager"}]}, "'pager', not one of"),
        ({"receivers": [{**WEBHOOK, "kind": "alertmanager"}]}, "begin with http"),
        ({"quiet_hours": {"from": "late", "to": "06:00"}}, "a time like"),
        ({"quiet_hours": {"from": "22:00", "to": "06:00", "hold": ["critical"]}}, "'critical'"),
        ({"quiet_hours": {"from": "22:00", "to": "06:00", "zone": "Vienna"}}, "no time zone"),
        ({"retry": {"first_seconds": 0}}, "above 0"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse(text, {})


def test_a_url_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("receivers: [{name: hook, url: 'json://user:sesame@hook.example/'}]\n")
    configuration = load(replace(load_settings({}), alerts=file))
    assert "sesame" not in repr(configuration)
    assert configuration.receivers[0].shown_url == "json://…"


def test_a_broken_file_is_complained_about_and_not_taken_for_none(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("receivers: [")
    settings = replace(load_settings({}), alerts=file)
    assert is_configured(settings)
    with pytest.raises(UserError, match=r"alerts\.yaml cannot be read"):
        load(settings)


def test_a_url_that_apprise_does_not_know_is_told() -> None:
    configuration = parse({"receivers": [{"name": "a", "url": "pigeon://loft"}]}, {})
    assert "does not know" in why_no_receiver(configuration.receivers[0])
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
def test_quiet_hours_may_go_past_midnight(moment: str, is_quiet: bool) -> None:
    assert quiet().contains(at(moment)) == is_quiet


def test_quiet_hours_are_local_through_summer_time() -> None:
    vienna = quiet(zone="Europe/Vienna")
    assert vienna.contains(at("2026-01-10T04:30"))
    assert not vienna.contains(at("2026-07-10T04:30"))


def test_times_without_quotes_are_taken_as_written() -> None:
    assert parse(yaml.safe_load("quiet_hours: {from: 22:00, to: 6:30}"), {}).quiet_hours == quiet(
        to="06:30"
    )
