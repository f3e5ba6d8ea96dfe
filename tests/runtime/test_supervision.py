"""The supervisor's configuration."""

from __future__ import annotations

import configparser
from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch.errors import UserError
from stunwatch.runtime import supervision
from stunwatch.runtime.components import COMPONENTS
from stunwatch.settings import Settings, load_settings


def parsed(settings: Settings) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read_string(supervision.configuration(settings, COMPONENTS))
    return parser


def test_it_listens_on_a_socket_of_its_home_alone() -> None:
    settings = load_settings({})
    parser = parsed(settings)
    assert parser["unix_http_server"]["file"] == str(settings.run / "supervisor.sock")
    assert "inet_http_server" not in parser


def test_every_component_is_restarted_for_ever_and_ends_with_its_children() -> None:
    parser = parsed(load_settings({}))
    for each in COMPONENTS:
        program = parser[f"program:{each.name}"]
        assert program["autorestart"] == "true"
        assert int(program["startretries"]) > 1_000_000
        assert program["stopasgroup"] == program["killasgroup"] == "true"


def test_no_password_stands_in_it(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "admin").write_text("sesame\n")
    assert "sesame" not in supervision.configuration(settings, COMPONENTS)


def test_percent_signs_of_a_path_are_not_the_supervisors_own() -> None:
    settings = replace(load_settings({}), home=Path("/srv/100%full"))
    parser = parsed(settings)
    assert parser["supervisord"]["directory"] == "/srv/100%%full"
    assert 'STUNWATCH_HOME="/srv/100%%full"' in parser["supervisord"]["environment"]


def test_another_port_is_another_configuration() -> None:
    settings = load_settings({})
    other = replace(settings, kafka_port=29092)
    before, after = (supervision.configuration(each, COMPONENTS) for each in (settings, other))
    assert before != after


def test_a_home_too_deep_for_a_socket_is_refused() -> None:
    settings = replace(load_settings({}), home=Path("/" + "deep/" * 30))
    with pytest.raises(UserError, match=r"too long for a socket .* STUNWATCH_HOME"):
        supervision.start(settings, "")


def test_nothing_depends_on_what_starts_later() -> None:
    started: set[str] = set()
    for each in COMPONENTS:
        assert started.issuperset(each.after)
        started.add(each.name)
