"""docker-compose.yml is valid and safe and equals local mode. The checks find differences."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stunwatch.settings import ROOT
from tests.deployment import compose

TEXT = compose.FILE.read_text()


def test_docker_compose_yml_is_valid_by_the_compose_specification() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    words = [checker, "--builtin-schema", "vendor.compose-spec", compose.FILE]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_docker_compose_yml_breaks_no_rule() -> None:
    assert compose.faults(compose.read()) == []


@pytest.mark.parametrize("profiles", list(compose.all_profiles()), ids="+".join)
def test_every_combination_of_profiles_starts_something(profiles: tuple[str, ...]) -> None:
    services = compose.with_profiles(compose.read(), profiles)
    assert services
    assert {each["profiles"][0] for each in services.values()} == set(profiles)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("apache/kafka:4.3.1", "apache/kafka:4.2.0", "kafka runs apache/kafka:4.2.0"),
        ("stunwatch/flink:2.2.1", "stunwatch/flink:latest", "keeper runs stunwatch/flink:latest"),
        ("./infra/clickhouse:/etc", "./other:/etc", "clickhouse does not read"),
        ("./ingest:/opt", "./other:/opt", "fluent-bit does not read"),
        ("PORT: 9092", "PORT: 9094", "STUNWATCH_KAFKA_PORT is 9094"),
        ("{source: clickhouse_reader, target: STUNWATCH_CLICKHOUSE_READER_PASSWORD}", "ca.crt",
         "clickhouse is not told STUNWATCH_CLICKHOUSE_READER_PASSWORD"),
        ("read_only: true", "read_only: false", "superset writes to its root"),
        ("cap_drop: [ALL]", "cap_drop: [NET_RAW]", "redis has capabilities"),
        ('user: "101:101"', 'user: "0:0"', "clickhouse is root"),
        (":10514/udp", ":514/udp", "fluent-bit publishes"),
        ("${STUNWATCH_PUBLISH:-127.0.0.1}:18088", "0.0.0.0:18088", "superset publishes"),
        ("{internal: true}", "{}", "the network of the pipeline is open"),
        ("superset: {condition", "kafka: {condition", "dashboards needs kafka"),
        ("POSTGRES_PASSWORD_FILE: /run/secrets/postgres", "POSTGRES_PASSWORD: x",
         "postgres has POSTGRES_PASSWORD in its environment"),
        ('{cpus: "1", memory: 256M}', '{cpus: "1"}', "redis may take all of the machine"),
        ("./secrets/kafka_flink", "./infra/kafka_flink", "kafka_flink is not in ./secrets"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_found(old: str, new: str, said: str) -> None:
    assert old in TEXT
    found = compose.faults(compose.read(TEXT.replace(old, new)))
    assert any(said in each for each in found), found


def test_make_secrets_creates_each_secret_of_the_file_once(tmp_path: Path) -> None:
    for folder in ("infra/tls", "infra/make_secrets"):
        source = ROOT / folder
        (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / folder)

    def make() -> dict[str, str]:
        subprocess.run([tmp_path / "infra/make_secrets", "syslog.example"], check=True)
        return {
            str(path.relative_to(tmp_path)): path.read_text()
            for path in (tmp_path / "secrets").rglob("*")
            if path.is_file()
        }

    made = make()
    assert make() == made
    wanted = {each["file"].removeprefix("./") for each in compose.read()["secrets"].values()}
    assert wanted <= set(made)
    assert set(made) - wanted <= {"secrets/tls/ca.key", "secrets/tls/ca.srl"}
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert all("\n" not in made[each] for each in wanted if "/tls/" not in each)


def test_git_and_images_ignore_the_secrets() -> None:
    assert "/secrets/" in (ROOT / ".gitignore").read_text().splitlines()
    assert "secrets/" in (ROOT / ".dockerignore").read_text().splitlines()


def test_secrets_named_like_variables_become_variables(tmp_path: Path) -> None:
    script = (ROOT / "infra/containers/with_secrets").read_text()
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "STUNWATCH_ONE").write_text("a b$c")
    (folder / "other").write_text("not a variable")
    moved = tmp_path / "with_secrets"
    moved.write_text(script.replace("/run/secrets", str(folder)))
    done = subprocess.run(
        ["sh", moved, "env"], capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    )
    assert "STUNWATCH_ONE=a b$c\n" in done.stdout
    assert "not a variable" not in done.stdout


def test_shell_scripts_parse() -> None:
    for name in ("infra/kafka/start", "infra/make_secrets", "infra/containers/with_secrets"):
        subprocess.run(["bash", "-n", ROOT / name], check=True)
        assert os.access(ROOT / name, os.X_OK)


def test_every_service_of_local_mode_has_a_container() -> None:
    from stunwatch.local.components import BY_NAME  # noqa: PLC0415

    services = yaml.safe_load(TEXT)["services"]
    assert set(BY_NAME) <= set(services)
