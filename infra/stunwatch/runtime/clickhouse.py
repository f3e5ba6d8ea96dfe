"""ClickHouse: the embedded server, or an installed one where there is one."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from stunwatch import access
from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError
from stunwatch.runtime.component import Component, Launch, http_ailment
from stunwatch.runtime.passwords import made_once
from stunwatch.settings import LOOPBACK, ROOT, Settings, versions

CONFIG = ROOT / "infra" / "clickhouse"
USERS = ("admin", "ingest", "transform", "reader")
"""What each may do is in users.xml."""


def library(settings: Settings) -> Path:
    """The embedded server's shared library."""
    package = versions()["clickhouse"]["package_version"]
    return settings.build / f"clickhouse-{package}" / "libchdb.so"


def package() -> dict[str, str]:
    """Name the npm package of the library for this machine: its `name` and `integrity`.

    Raises:
        UserError: the library is not published for it.
    """
    machine = f"{platform.system().lower()}-{platform.machine()}"
    published: dict[str, dict[str, str]] = versions()["clickhouse"]["packages"]
    if machine not in published:
        raise UserError(
            f"The embedded ClickHouse is not published for {machine}:"
            " install ClickHouse so that `clickhouse` is on the PATH, and run this again."
        )
    return published[machine]


def installed() -> str | None:
    """Find an installed ClickHouse; it is preferred to the embedded one."""
    return shutil.which("clickhouse")


def password(settings: Settings, user: str) -> str:
    """Return the password of one of USERS.

    It is made once, in a file of mode 600; containers have it in the environment instead.
    """
    if given := os.environ.get(f"STUNWATCH_CLICKHOUSE_{user.upper()}_PASSWORD"):
        return given
    return made_once(settings.secrets / user)


def administrator(settings: Settings) -> ClickHouse:
    """Return the access that applies `sql/`."""
    return ClickHouse(
        settings.clickhouse_host,
        settings.clickhouse_http_port,
        "admin",
        password(settings, "admin"),
    )


def launch(settings: Settings) -> Launch:
    """Say where the server's data lies; config.xml takes the rest from the environment too."""
    data = settings.home / "clickhouse"
    data.mkdir(exist_ok=True, mode=0o700)
    config = CONFIG / "config.xml"
    environment = {
        "STUNWATCH_CLICKHOUSE_PATH": f"{data}/",
        "STUNWATCH_CLICKHOUSE_LISTEN": settings.bind_address,
        "STUNWATCH_CLICKHOUSE_CLIENTS": LOOPBACK,
        # Whoever runs the local pipeline may back it up wherever they may write.
        "STUNWATCH_CLICKHOUSE_BACKUPS": "/",
        # Less than what stops intake, so that what Kafka has acknowledged can still be stored.
        "STUNWATCH_CLICKHOUSE_KEEP_FREE_BYTES": str(settings.min_free_mb * (1 << 20) // 4),
        **_kafka(settings),
    } | {
        f"STUNWATCH_CLICKHOUSE_{user.upper()}_PASSWORD": password(settings, user) for user in USERS
    }
    if binary := installed():
        return Launch([binary, "server", "--config-file", str(config)], environment)
    server = [sys.executable, str(CONFIG / "server.py"), str(library(settings)), str(config)]
    return Launch(server, environment)


def _kafka(settings: Settings) -> dict[str, str]:
    """How its readers reach Kafka; config.xml has no condition, so every variable has a value."""
    is_secured = access.is_secured(settings)
    password = access.password(settings, "clickhouse") if is_secured else "none is asked for"
    return {
        "STUNWATCH_KAFKA_BOOTSTRAP": settings.bootstrap,
        "STUNWATCH_KAFKA_SECURITY_PROTOCOL": "sasl_ssl" if is_secured else "plaintext",
        "STUNWATCH_KAFKA_CLICKHOUSE_PASSWORD": password,
        "STUNWATCH_KAFKA_CA_FILE": str(access.authority(settings)),
    }


def ailment(settings: Settings) -> str | None:
    """Ping the server; return why it does not answer, None if it does."""
    return http_ailment(settings.clickhouse_host, settings.clickhouse_http_port, "/ping")


COMPONENT = Component("clickhouse", after=(), launch=launch, ailment=ailment, stop_seconds=20)
