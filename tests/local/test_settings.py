"""Folders, ports and limits of a pipeline, and settings that are rejected."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from stunwatch.errors import UserError
from stunwatch.local import superset
from stunwatch.settings import LOOPBACK, ROOT, load_settings


def test_defaults_are_in_the_checkout_and_on_loopback() -> None:
    settings = load_settings({})
    assert settings.home == ROOT / "var"
    assert settings.bootstrap == "127.0.0.1:19092"
    assert {settings.bind_address, settings.kafka_host, settings.clickhouse_host} == {LOOPBACK}


def test_no_default_port_is_in_the_kernels_range_for_clients() -> None:
    # Linux assigns ports from 32768 to outgoing connections, so a listener there may find its port
    # in use.
    assert all(1024 < port < 32768 for *_, port in load_settings({}).ports())


def test_the_environment_can_set_every_field(tmp_path: Path) -> None:
    given = {
        "STUNWATCH_HOME": str(tmp_path),
        "STUNWATCH_KAFKA_PORT": "29092",
        "STUNWATCH_KAFKA_HOST": "kafka",
        "STUNWATCH_MIN_FREE_MB": "50",
        "STUNWATCH_SITE_TIMEZONE": "Europe/Berlin",
    }
    settings = load_settings(given)
    assert (settings.home, settings.bootstrap) == (tmp_path, "kafka:29092")
    assert settings.min_free_mb == 50
    assert settings.site_timezone == ZoneInfo("Europe/Berlin")
    assert load_settings(settings.environment()) == settings


def test_a_relative_home_is_made_absolute() -> None:
    assert load_settings({"STUNWATCH_HOME": "elsewhere"}).home == Path.cwd() / "elsewhere"


@pytest.mark.parametrize("text", ["kafka", "-1", "0", "65536", "1.5"])
def test_an_invalid_port_is_rejected_with_its_variable(text: str) -> None:
    with pytest.raises(UserError, match=r"STUNWATCH_KAFKA_PORT is .* from 1 to 65535"):
        load_settings({"STUNWATCH_KAFKA_PORT": text})


def test_two_components_cannot_share_a_port() -> None:
    with pytest.raises(UserError, match=r"KAFKA_PORT and .*FLINK_REST_PORT are both 18081"):
        load_settings({"STUNWATCH_KAFKA_PORT": "18081"})


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Europe/Brelin", "Did you mean Europe/Berlin"),
        ("berlin", "Did you mean Europe/Berlin?"),
        ("New York", "Did you mean America/New_York?"),
        ("europe/vienna ", "Did you mean Europe/Vienna"),
        ("utc", "Did you mean UTC?"),
        ("CEST", "is not a time zone. Use an IANA name"),
        ("GMT+2", "is not a time zone. Use an IANA name"),
        ("../etc/passwd", "is not a time zone. Use an IANA name"),
    ],
)
def test_an_unknown_time_zone_of_the_site_is_rejected(typed: str, meant: str) -> None:
    with pytest.raises(UserError) as caught:
        load_settings({"STUNWATCH_SITE_TIMEZONE": typed})
    assert str(caught.value).startswith(f"STUNWATCH_SITE_TIMEZONE is {typed!r}, which is not")
    assert meant in str(caught.value)


def test_superset_can_be_disabled_by_the_environment_or_by_up(tmp_path: Path) -> None:
    assert superset.is_wanted(load_settings({"STUNWATCH_HOME": str(tmp_path)}))
    asked = {"STUNWATCH_HOME": str(tmp_path), "STUNWATCH_SUPERSET": "false"}
    assert not superset.is_wanted(load_settings(asked))
    with pytest.raises(UserError, match="STUNWATCH_SUPERSET is 'perhaps'"):
        load_settings({"STUNWATCH_SUPERSET": "perhaps"})
    settings = load_settings({"STUNWATCH_HOME": str(tmp_path)})
    superset.without(settings).touch()
    assert not superset.is_wanted(settings)
