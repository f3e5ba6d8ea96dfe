"""Kafka client settings for each principal: broker address and, if secured, TLS and a password.

Every component connects as one principal. infra/kafka/acls.yaml lists the permissions of each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from stunwatch.errors import UserError
from stunwatch.settings import Settings, variable

ADMIN: Final = "admin"
"""The principal that creates topics and grants permissions."""

PRINCIPALS: Final = (
    ADMIN,
    "fluent-bit",
    "replay",
    "collector",
    "flink",
    "clickhouse",
    "alerts",
    "metrics",
)

IN_ITS_FILES: Final = (ADMIN, "clickhouse")
"""Principals whose passwords are in Kafka's own files. They authenticate with SASL/PLAIN, inside
TLS: `admin` because it creates the SCRAM credentials of all others, and ClickHouse because its
embedded librdkafka has no SCRAM.
"""

Access = dict[str, Any]
"""Settings of librdkafka."""


def switch(settings: Settings) -> Path:
    """Return the path of the flag file; Kafka is secured if the file exists."""
    return settings.home / "secured"


def is_secured(settings: Settings) -> bool:
    """True if Kafka requires TLS and a password."""
    return settings.secure or switch(settings).exists()


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment variables for the pipeline's own processes.

    `secure` is always set explicitly, so that a process need not look for the flag file. Flink's
    jobs read the variable in flink-jobs/jobs/options.py.
    """
    return settings.environment() | {variable("secure"): str(is_secured(settings))}


def password_file(settings: Settings, principal: str) -> Path:
    """Return the path of a principal's password file, which has mode 600."""
    return settings.secrets / f"kafka_{principal}"


def authority(settings: Settings) -> Path:
    """Return the path of the CA certificate, which is not secret."""
    return settings.certificates / "ca.crt"


def password(settings: Settings, principal: str) -> str:
    """Read a principal's password. Raises UserError if there is none."""
    try:
        return password_file(settings, principal).read_text().strip()
    except FileNotFoundError:
        raise UserError(
            f"The password of Kafka's user {principal} is missing in {settings.secrets}."
            " `stunwatch up --secure` creates it."
        ) from None


def kafka_access(settings: Settings, principal: str) -> Access:
    """Return a principal's librdkafka settings. Raises UserError if its password is missing."""
    access: Access = {"bootstrap.servers": settings.bootstrap}
    if not is_secured(settings):
        return access
    return access | {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority(settings)),
        "sasl.mechanism": "PLAIN" if principal in IN_ITS_FILES else "SCRAM-SHA-512",
        "sasl.username": principal,
        "sasl.password": password(settings, principal),
    }
