"""ClickHouse: the embedded server, or an installed one if there is one."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from stunwatch import access, schema
from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError
from stunwatch.local.component import Component, Launch, http_unhealthy_reason
from stunwatch.local.passwords import made_once
from stunwatch.settings import LOOPBACK, ROOT, Settings, versions

CONFIG = ROOT / "infra" / "clickhouse"
USERS = ("admin", "ingest", "transform", "analyst", "reader")
"""infra/clickhouse/users.xml defines their permissions."""


def library(settings: Settings) -> Path:
    """Return the path of the embedded server's shared library."""
    package = versions()["clickhouse"]["package_version"]
    return settings.build / f"clickhouse-{package}" / "libchdb.so"


def package() -> dict[str, str]:
    """Return the npm package of the library for this machine: its `name` and `integrity`.

    Raises:
        UserError: the library is not published for this machine.
    """
    machine = f"{platform.system().lower()}-{platform.machine()}"
    published: dict[str, dict[str, str]] = versions()["clickhouse"]["packages"]
    if machine not in published:
        raise UserError(
            f"The embedded ClickHouse is not available for {machine}. Install ClickHouse so that"
            " `clickhouse` is on the PATH, then run this again."
        )
    return published[machine]


def installed() -> str | None:
    """Return the path of an installed ClickHouse, which takes precedence; None if there is none."""
    return shutil.which("clickhouse")


def password(settings: Settings, user: str) -> str:
    """Return the password of one of USERS.

    It is generated once, in a file of mode 600. Containers have it in the environment instead.
    """
    if given := os.environ.get(f"STUNWATCH_CLICKHOUSE_{user.upper()}_PASSWORD"):
        return given
    return made_once(settings.secrets / user)


def _password_file(settings: Settings, user: str) -> Path:
    made_once(settings.secrets / user)
    return settings.secrets / user


def administrator(settings: Settings) -> ClickHouse:
    """Return a client of the user that applies `sql/`."""
    return ClickHouse(
        settings.clickhouse_host,
        settings.clickhouse_http_port,
        "admin",
        password(settings, "admin"),
    )


def apply_sql(settings: Settings) -> list[str]:
    """Apply `sql/` and the limits to the single server; return the names of the files applied."""
    admin = administrator(settings)
    applied = schema.apply(admin, site_timezone=settings.site_timezone.key)
    schema.store_limits(admin, settings.limits)
    return applied


def launch(settings: Settings) -> Launch:
    """Return the command and environment of the server; config.xml reads the environment."""
    data = settings.home / "clickhouse"
    data.mkdir(exist_ok=True, mode=0o700)
    config = CONFIG / "config.xml"
    binary = installed()
    environment = {
        "STUNWATCH_CLICKHOUSE_PATH": f"{data}/",
        "STUNWATCH_CLICKHOUSE_LISTEN": settings.bind_address,
        "STUNWATCH_CLICKHOUSE_CLIENTS": LOOPBACK,
        # The embedded server itself connects as the user `default`; no client has address 0.0.0.0.
        "STUNWATCH_CLICKHOUSE_BOOTSTRAP_FROM": "0.0.0.0" if binary else LOOPBACK,  # noqa: S104
        # The user of the local pipeline may write backups wherever the file permissions allow.
        "STUNWATCH_CLICKHOUSE_BACKUPS": "/",
        # Below the limit that stops intake, so that ClickHouse can still store messages from Kafka.
        "STUNWATCH_CLICKHOUSE_KEEP_FREE_BYTES": str(settings.min_free_mb * (1 << 20) // 4),
        **_kafka(settings),
    }
    files = {
        f"STUNWATCH_CLICKHOUSE_{user.upper()}_PASSWORD": _password_file(settings, user)
        for user in USERS
    }
    if access.is_secured(settings):
        of_kafka = access.password_file(settings, "clickhouse")
        files["STUNWATCH_KAFKA_CLICKHOUSE_PASSWORD"] = of_kafka
    if binary:
        # An installed server reads passwords only from its environment.
        secrets = {name: path.read_text().strip() for name, path in files.items()}
        command = [binary, "server", "--config-file", str(config)]
        return Launch(command, environment | secrets)
    environment |= {f"{name}_FILE": str(path) for name, path in files.items()}
    server = [sys.executable, str(CONFIG / "server.py"), str(library(settings)), str(config)]
    return Launch(server, environment)


def _kafka(settings: Settings) -> dict[str, str]:
    """Return the variables for Kafka. config.xml has no conditions, so all of them are set."""
    is_secured = access.is_secured(settings)
    return {
        "STUNWATCH_KAFKA_BOOTSTRAP": settings.bootstrap,
        "STUNWATCH_KAFKA_SECURITY_PROTOCOL": "sasl_ssl" if is_secured else "plaintext",
        **({} if is_secured else {"STUNWATCH_KAFKA_CLICKHOUSE_PASSWORD": "none is asked for"}),
        "STUNWATCH_KAFKA_CA_FILE": str(access.authority(settings)),
    }


def unhealthy_reason(settings: Settings) -> str | None:
    """Ping the server; return the problem, None if it answers."""
    return http_unhealthy_reason(settings.clickhouse_host, settings.clickhouse_http_port, "/ping")


COMPONENT = Component(
    "clickhouse", after=(), launch=launch, unhealthy_reason=unhealthy_reason, stop_seconds=20
)
