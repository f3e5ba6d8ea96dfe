"""Where the local pipeline lives and listens.

Every field can be set from the environment as `STUNWATCH_<FIELD>` (`STUNWATCH_KAFKA_PORT=29092`),
so that a second pipeline, a test's for example, runs beside the first.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from stunwatch.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
"""The checkout: versions.toml, infra/, sql/ and the other folders stand in it."""

LOOPBACK = "127.0.0.1"
"""The only address that local mode uses."""


@dataclass(frozen=True)
class Settings:
    """One local pipeline. Two of them need another `home` and other ports, nothing else."""

    home: Path = ROOT / "var"
    """Data, logs and run files."""

    build: Path = ROOT / "build"
    """What was fetched or built; shared by all pipelines of a checkout."""

    bind_address: str = LOOPBACK
    """What the components listen on. Containers set this, and each other's names below."""

    kafka_host: str = LOOPBACK
    clickhouse_host: str = LOOPBACK
    jobmanager_host: str = LOOPBACK
    taskmanager_host: str = LOOPBACK
    superset_host: str = LOOPBACK
    metrics_host: str = LOOPBACK

    kafka_port: int = field(default=19092, metadata={"of": "kafka"})
    kafka_controller_port: int = field(default=19093, metadata={"of": "kafka"})
    clickhouse_http_port: int = field(default=18123, metadata={"of": "clickhouse"})
    clickhouse_tcp_port: int = field(default=19000, metadata={"of": "clickhouse"})
    flink_rest_port: int = field(default=18081, metadata={"of": "jobmanager"})
    flink_rpc_port: int = field(default=16123, metadata={"of": "jobmanager"})
    flink_blob_port: int = field(default=16124, metadata={"of": "jobmanager"})
    superset_port: int = field(default=18088, metadata={"of": "superset"})
    metrics_port: int = field(default=19404, metadata={"of": "metrics"})
    jobmanager_metrics_port: int = field(default=19249, metadata={"of": "jobmanager"})
    taskmanager_metrics_port: int = field(default=19250, metadata={"of": "taskmanager"})

    clickhouse_cluster: str = ""
    """The cluster whose servers share the rows, as ClickHouse names it; empty of one server."""

    superset: bool = True
    """Whether dashboards are served; `up --no-superset` leaves them out too."""

    metrics: bool = False
    """Whether Prometheus is told how the pipeline does. Flink tells it on every address of the
    machine: its reporter knows no other way."""

    secure: bool = False
    """Whether Kafka asks everybody for TLS and a password; `up --secure` makes it ask too."""

    alerts: Path = ROOT / "infra" / "alerts" / "alerts.yaml"
    """Who is told of incidents."""

    min_free_mb: int = 1024
    """Intake stops when the file system of `home` has less left, in MiB."""

    @property
    def bootstrap(self) -> str:
        """Kafka, `host:port`."""
        return f"{self.kafka_host}:{self.kafka_port}"

    @property
    def flink_rest(self) -> str:
        """Flink's REST interface, `host:port`."""
        return f"{self.jobmanager_host}:{self.flink_rest_port}"

    @property
    def run(self) -> Path:
        """Sockets, pid files and generated configuration."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """One file per component, `<component>.log`."""
        return self.home / "logs"

    @property
    def secrets(self) -> Path:
        """Generated passwords, one file of mode 600 per user of each component."""
        return self.home / "secrets"

    @property
    def certificates(self) -> Path:
        """What infra/tls/make_certificates made: ca.crt, and <name>.crt and <name>.key."""
        return self.home / "tls"

    def make_folders(self) -> None:
        """Make the folders that every component expects; nobody else may look into them."""
        for folder in (self.home, self.run, self.logs):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def ports(self) -> Iterator[tuple[str, str, int]]:
        """Yield every listening port as (component, environment variable, port)."""
        for each in fields(self):
            if owner := each.metadata.get("of"):
                yield owner, variable(each.name), getattr(self, each.name)

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for the processes of the pipeline."""
        return {variable(each.name): str(getattr(self, each.name)) for each in fields(self)}


def variable(name: str) -> str:
    """Name the environment variable that sets a field: kafka_port → STUNWATCH_KAFKA_PORT."""
    return f"STUNWATCH_{name.upper()}"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from `environment` (the process's own where None) over the defaults.

    Raises:
        UserError: a port or a size is no whole number in its range, or two ports are the same.
    """
    environment = os.environ if environment is None else environment
    given: dict[str, Any] = {}
    for each in fields(Settings):
        text = environment.get(variable(each.name), "")
        if text:
            given[each.name] = READ[type(each.default)](each.name, text)
    settings = Settings(**given)
    seen: dict[int, str] = {}
    for _, name, port in settings.ports():
        if port in seen:
            raise UserError(f"{seen[port]} and {name} are both {port}: give them different ports.")
        seen[port] = name
    return settings


def _path(_: str, text: str) -> Path:
    return Path(text).resolve()


def _text(_: str, text: str) -> str:
    return text


def _number(name: str, text: str) -> int:
    highest = 65535 if name.endswith("_port") else 1 << 40
    if not text.isdecimal() or not 0 < int(text) <= highest:
        raise UserError(f"{variable(name)} is {text!r}: it must be a number from 1 to {highest}.")
    return int(text)


def _truth(name: str, text: str) -> bool:
    if text.lower() not in TRUTHS:
        raise UserError(f"{variable(name)} is {text!r}: it must be one of {', '.join(TRUTHS)}.")
    return TRUTHS[text.lower()]


TRUTHS = {"true": True, "false": False, "1": True, "0": False}

READ: dict[type, Callable[[str, str], Any]] = {
    str: _text,
    int: _number,
    bool: _truth,
    type(ROOT): _path,
}
"""By the type of a field's default: how its text (field, text) is read."""


@cache
def versions() -> dict[str, Any]:
    """Read versions.toml: every component's version."""
    return tomllib.loads((ROOT / "versions.toml").read_text())
