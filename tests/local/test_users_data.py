"""Tests cannot access the pipeline or the data of the developer (tests/conftest.py)."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from stunwatch.settings import load_settings

USERS = load_settings({})
REFUSED = "connects to|writes to"


def test_a_command_without_its_own_settings_finds_no_pipeline() -> None:
    ambient = load_settings()
    assert ambient.home != USERS.home
    assert not ambient.home.is_relative_to(USERS.home.parent)
    users = {port for *_, port in USERS.ports()}
    for *_, port in ambient.ports():
        assert port not in users
        with socket.socket() as each:
            assert each.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("port", [port for *_, port in USERS.ports()])
def test_a_connection_to_the_users_pipeline_is_refused(port: int) -> None:
    with socket.socket() as each, pytest.raises(Exception, match=REFUSED):
        each.connect(("127.0.0.1", port))


@pytest.mark.parametrize(
    "client", [confluent_kafka.Producer, confluent_kafka.Consumer, AdminClient]
)
def test_a_client_of_the_users_kafka_is_refused(client: Any) -> None:
    with pytest.raises(Exception, match=REFUSED):
        client({"bootstrap.servers": USERS.bootstrap, "group.id": "tests"})


@pytest.mark.parametrize("name", ["a_file", "secrets/analyst"])
def test_a_write_to_the_users_data_is_refused(name: str) -> None:
    with pytest.raises(Exception, match=REFUSED):
        os.open(USERS.home / name, os.O_WRONLY)
    with pytest.raises(Exception, match=REFUSED):
        Path(USERS.home / name).write_text("a test")
