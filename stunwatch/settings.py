"""Settings of the local pipeline: folders, ports and limits.

Every field can be set in the environment as `STUNWATCH_<FIELD>` (`STUNWATCH_KAFKA_PORT=29092`). A
second pipeline, such as one of a test, can therefore run beside the first.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from stunwatch import folders
from stunwatch.errors import UserError
from stunwatch.ingest.vm_paths import TAILED_BY_DEFAULT
from stunwatch.times import zone

ROOT = folders.ROOT
"""The folder that contains versions.toml, infra/, sql/ and the others."""

UTC = ZoneInfo("UTC")

LOOPBACK = "127.0.0.1"
"""The only address that local mode uses."""


@dataclass(frozen=True)
class Settings:
    """Settings of one local pipeline. A second one needs only another `home` and other ports."""

    home: Path = folders.STATE / "var"
    """Data, logs and run files."""

    build: Path = folders.STATE / "build"
    """Downloads and build results; shared by all pipelines of a checkout or a user."""

    bind_address: str = LOOPBACK
    """The address that components listen on. Containers set it, and the host names below."""

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
    """Name of the ClickHouse cluster whose servers share the rows; empty for a single server."""

    flink_parallelism: int = 2
    """Flink slots that the live job uses, at most 4. More than a topic's partitions do not help."""

    superset: bool = True
    """Whether dashboards are served; `up --no-superset` also disables them."""

    metrics: bool = False
    """Whether metrics are served to Prometheus.

    Flink's reporter cannot be bound to an address: it listens on all addresses of the machine.
    """

    secure: bool = False
    """Whether Kafka requires TLS and passwords of all clients; `up --secure` also sets it."""

    alerts: Path = ROOT / "infra" / "alerts" / "alerts.yaml"
    """The file that configures the receivers of alerts."""

    vmware_log_path: str = TAILED_BY_DEFAULT
    """Files that Fluent Bit tails, with globs; their last two folders are datastore and VM."""

    trial: bool = False
    """Whether the pipeline is only for trial, so that `simulate --live` and `demo` may add data."""

    newest_line_limit_s: int = 600
    """Age of the newest live line, in seconds, above which live lines count as missing.

    `watch`, `status`, dashboards and metrics show this. `up` stores the limit in ClickHouse.
    """

    site_timezone: ZoneInfo = UTC
    """The site's time zone, an IANA name: for printed times, reports, and hours of the day."""

    min_free_mb: int = 1024
    """Minimum free space on the file system of `home`, in MiB. Below it, intake stops."""

    @property
    def bootstrap(self) -> str:
        """Address of Kafka, `host:port`."""
        return f"{self.kafka_host}:{self.kafka_port}"

    @property
    def flink_rest(self) -> str:
        """Address of Flink's REST interface, `host:port`."""
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
        """The output of infra/tls/make_certificates: ca.crt, and <name>.crt and <name>.key."""
        return self.home / "tls"

    @property
    def limits(self) -> dict[str, int]:
        """The limits that ClickHouse's views need, by their name in the views."""
        return {"newest_line_s": self.newest_line_limit_s}

    def make_folders(self) -> None:
        """Create the folders that every component expects, with access for this user only."""
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
    """Return the environment variable that sets a field: kafka_port → STUNWATCH_KAFKA_PORT."""
    return f"STUNWATCH_{name.upper()}"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from `environment` (the process's own if None), with defaults.

    Raises:
        UserError: a port or a size is not an integer in its range, two ports are the same, or the
            site's time zone does not exist.
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
            raise UserError(f"{seen[port]} and {name} are both {port}. Set different ports.")
        seen[port] = name
    return settings


def _path(_: str, text: str) -> Path:
    return Path(text).resolve()


def _text(_: str, text: str) -> str:
    return text


def _number(name: str, text: str) -> int:
    highest = 65535 if name.endswith("_port") else HIGHEST.get(name, 1 << 40)
    if not text.isdecimal() or not 0 < int(text) <= highest:
        raise UserError(f"{variable(name)} is {text!r}. Set it to a number from 1 to {highest}.")
    return int(text)


def _truth(name: str, text: str) -> bool:
    if text.lower() not in TRUTHS:
        raise UserError(f"{variable(name)} is {text!r}. Set it to one of {', '.join(TRUTHS)}.")
    return TRUTHS[text.lower()]


def _zone(name: str, text: str) -> ZoneInfo:
    return zone(text, of=variable(name))


HIGHEST = {"flink_parallelism": 4}
"""Upper limits of numbers: Flink has this many slots (infra/flink/config.yaml)."""

TRUTHS = {"true": True, "false": False, "1": True, "0": False}

READ: dict[type, Callable[[str, str], Any]] = {
    str: _text,
    int: _number,
    bool: _truth,
    ZoneInfo: _zone,
    type(ROOT): _path,
}
"""Parsers of a field's text, called with (field, text), by the type of the field's default."""


@cache
def versions() -> dict[str, Any]:
    """Read versions.toml: the version of every component."""
    return tomllib.loads((ROOT / "versions.toml").read_text())
