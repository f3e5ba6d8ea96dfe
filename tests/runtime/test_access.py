"""How Kafka is reached, plain and secured, and that the list of rights names what there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.options import in_sql, kafka_options
from stunwatch import access
from stunwatch.access import PRINCIPALS, kafka_access
from stunwatch.errors import UserError
from stunwatch.runtime.kafka import wanted_topics
from stunwatch.runtime.principals import make_what_is_missing, rights
from stunwatch.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings({}), home=tmp_path)


def test_plain_kafka_is_told_nothing(settings: Settings) -> None:
    assert kafka_access(settings, "replay") == {"bootstrap.servers": settings.bootstrap}


def test_the_switch_or_the_environment_secures(settings: Settings) -> None:
    assert not access.is_secured(settings)
    assert access.is_secured(replace(settings, secure=True))
    access.switch(settings).touch()
    assert access.is_secured(settings)
    # The pipeline's own processes are told, and a later `up` sees that it differs.
    assert access.environment(settings)["STUNWATCH_SECURE"] == "True"


def test_a_missing_password_is_named(settings: Settings) -> None:
    with pytest.raises(UserError, match="no password of Kafka's replay"):
        kafka_access(replace(settings, secure=True), "replay")


def test_passwords_and_certificates_are_made_once(settings: Settings) -> None:
    def written() -> dict[Path, bytes]:
        return {each: each.read_bytes() for each in settings.home.rglob("*") if each.is_file()}

    make_what_is_missing(settings)
    made = written()
    make_what_is_missing(settings)
    assert written() == made
    secret = {each for each in made if each.suffix != ".crt"}
    assert {each.name for each in secret} >= {"kafka_flink", "kafka.key", "ca.key"}
    assert {each.stat().st_mode & 0o777 for each in secret} == {0o600}
    # Kafka takes a file as it is.
    assert all(b"\n" not in made[access.password_file(settings, each)] for each in PRINCIPALS)


def test_two_send_their_password_as_it_is(settings: Settings) -> None:
    make_what_is_missing(settings)
    secured = replace(settings, secure=True)
    mechanisms = {each: kafka_access(secured, each)["sasl.mechanism"] for each in PRINCIPALS}
    assert {each for each, how in mechanisms.items() if how == "PLAIN"} == {"admin", "clickhouse"}
    assert set(mechanisms.values()) == {"PLAIN", "SCRAM-SHA-512"}


def test_the_jobs_name_the_passwords_file_and_not_the_password(settings: Settings) -> None:
    make_what_is_missing(settings)
    environment = access.environment(replace(settings, secure=True))
    said = in_sql(kafka_options(settings.bootstrap, environment))
    assert f"${{dir:{settings.secrets}:kafka_flink}}" in said
    assert access.password(settings, "flink") not in said


def test_the_jobs_reach_a_plain_kafka_by_its_address_alone(settings: Settings) -> None:
    options = kafka_options(settings.bootstrap, access.environment(settings))
    assert options == {"properties.bootstrap.servers": settings.bootstrap}


def test_every_right_is_of_a_user_that_there_is_on_topics_that_there_are() -> None:
    given = rights()
    assert {who for _, _, _, who, _ in given} == set(PRINCIPALS) - {access.ADMIN}
    topics = {(name, is_prefix) for kind, name, is_prefix, _, _ in given if kind == "topic"}
    for name, is_prefix in topics - {("*", False)}:
        named = [each for each in wanted_topics() if each == name or is_prefix]
        assert [each for each in named if each.startswith(name)], name
