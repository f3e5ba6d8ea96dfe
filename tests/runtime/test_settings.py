"""Where a pipeline lives and listens, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stunwatch.errors import UserError
from stunwatch.runtime import superset
from stunwatch.settings import LOOPBACK, ROOT, load_settings


def test_defaults_stay_in_the_checkout_and_on_loopback() -> None:
    settings = load_settings({})
    assert settings.home == ROOT / "var"
    assert settings.bootstrap == "127.0.0.1:19092"
    assert {settings.bind_address, settings.kafka_host, settings.clickhouse_host} == {LOOPBACK}


def test_no_default_port_is_one_that_the_kernel_gives_to_clients() -> None:
    # Linux takes those from 32768; a listener there finds its port busy now and then.
    assert all(1024 < port < 32768 for *_, port in load_settings({}).ports())


def test_the_environment_sets_every_field(tmp_path: Path) -> None:
    given = {
        "STUNWATCH_HOME": str(tmp_path),
        "STUNWATCH_KAFKA_PORT": "29092",
        "STUNWATCH_KAFKA_HOST": "kafka",
        "STUNWATCH_MIN_FREE_MB": "50",
    }
    settings = load_settings(given)
    assert (settings.home, settings.bootstrap) == (tmp_path, "kafka:29092")
    assert settings.min_free_mb == 50
    assert load_settings(settings.environment()) == settings


def test_a_relative_home_is_made_absolute() -> None:
    assert load_settings({"STUNWATCH_HOME": "elsewhere"}).home == Path.cwd() / "elsewhere"


@pytest.mark.parametrize("text", ["kafka", "-1", "0", "65536", "1.5"])
def test_a_port_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(UserError, match=r"STUNWATCH_KAFKA_PORT is .* from 1 to 65535"):
        load_settings({"STUNWATCH_KAFKA_PORT": text})


def test_two_components_cannot_share_a_port() -> None:
    with pytest.raises(UserError, match=r"KAFKA_PORT and .*FLINK_REST_PORT are both 18081"):
        load_settings({"STUNWATCH_KAFKA_PORT": "18081"})


def test_superset_is_left_out_where_the_environment_or_up_says_so(tmp_path: Path) -> None:
    assert superset.is_wanted(load_settings({"STUNWATCH_HOME": str(tmp_path)}))
    asked = {"STUNWATCH_HOME": str(tmp_path), "STUNWATCH_SUPERSET": "false"}
    assert not superset.is_wanted(load_settings(asked))
    with pytest.raises(UserError, match="STUNWATCH_SUPERSET is 'perhaps'"):
        load_settings({"STUNWATCH_SUPERSET": "perhaps"})
    settings = load_settings({"STUNWATCH_HOME": str(tmp_path)})
    superset.without(settings).touch()
    assert not superset.is_wanted(settings)
