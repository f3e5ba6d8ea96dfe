"""Kafka client settings, plain and secured, and whether acls.yaml matches principals and topics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch import access
from stunwatch.access import PRINCIPALS, kafka_access
from stunwatch.errors import UserError
from stunwatch.jobs.options import in_sql, kafka_options
from stunwatch.local.kafka import wanted_topics
from stunwatch.local.principals import make_what_is_missing, rights
from stunwatch.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings({}), home=tmp_path)


def test_plain_kafka_needs_only_the_address(settings: Settings) -> None:
    assert kafka_access(settings, "replay") == {"bootstrap.servers": settings.bootstrap}


def test_the_flag_file_or_the_environment_secures_kafka(settings: Settings) -> None:
    assert not access.is_secured(settings)
    assert access.is_secured(replace(settings, secure=True))
    access.switch(settings).touch()
    assert access.is_secured(settings)
    # The pipeline's own processes receive the value, and a later `up` notices the difference.
    assert access.environment(settings)["STUNWATCH_SECURE"] == "True"


def test_a_missing_password_is_named(settings: Settings) -> None:
    with pytest.raises(UserError, match="password of Kafka's user replay is missing"):
        kafka_access(replace(settings, secure=True), "replay")


def test_passwords_and_certificates_are_generated_once(settings: Settings) -> None:
    def written() -> dict[Path, bytes]:
        return {each: each.read_bytes() for each in settings.home.rglob("*") if each.is_file()}

    make_what_is_missing(settings)
    made = written()
    make_what_is_missing(settings)
    assert written() == made
    secret = {each for each in made if each.suffix != ".crt"}
    assert {each.name for each in secret} >= {"kafka_flink", "kafka.key", "ca.key"}
    assert {each.stat().st_mode & 0o777 for each in secret} == {0o600}
    # Kafka uses the whole content of the file.
    assert all(b"\n" not in made[access.password_file(settings, each)] for each in PRINCIPALS)


def test_only_admin_and_clickhouse_authenticate_with_plain(settings: Settings) -> None:
    make_what_is_missing(settings)
    secured = replace(settings, secure=True)
    mechanisms = {each: kafka_access(secured, each)["sasl.mechanism"] for each in PRINCIPALS}
    assert {each for each, how in mechanisms.items() if how == "PLAIN"} == {"admin", "clickhouse"}
    assert set(mechanisms.values()) == {"PLAIN", "SCRAM-SHA-512"}


def test_the_jobs_options_contain_the_password_file_but_not_the_password(
    settings: Settings,
) -> None:
    make_what_is_missing(settings)
    environment = access.environment(replace(settings, secure=True))
    said = in_sql(kafka_options(settings.bootstrap, environment))
    assert f"${{dir:{settings.secrets}:kafka_flink}}" in said
    assert access.password(settings, "flink") not in said


def test_the_jobs_connect_to_a_plain_kafka_with_only_its_address(settings: Settings) -> None:
    options = kafka_options(settings.bootstrap, access.environment(settings))
    assert options == {"properties.bootstrap.servers": settings.bootstrap}


def test_every_permission_is_of_an_existing_principal_on_existing_topics() -> None:
    given = rights()
    assert {who for _, _, _, who, _ in given} == set(PRINCIPALS) - {access.ADMIN}
    topics = {(name, is_prefix) for kind, name, is_prefix, _, _ in given if kind == "topic"}
    for name, is_prefix in topics - {("*", False)}:
        named = [each for each in wanted_topics() if each == name or is_prefix]
        assert [each for each in named if each.startswith(name)], name
