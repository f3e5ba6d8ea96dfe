"""What each principal needs to reach Kafka: its address and, where secured, TLS and a password.

Whoever opens a connection says which principal it is. What that one may do is in
infra/kafka/acls.yaml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from stunwatch.errors import UserError
from stunwatch.settings import Settings, variable

ADMIN: Final = "admin"
"""Makes topics, and says who may do what."""

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
"""Whom Kafka knows by its own files, and who therefore send it their password as it is, inside TLS:
admin, because it tells Kafka of all others, and ClickHouse, whose embedded librdkafka has no SCRAM.
"""

Access = dict[str, Any]
"""Settings of librdkafka."""


def switch(settings: Settings) -> Path:
    """The file that stands there while the pipeline runs secured."""
    return settings.home / "secured"


def is_secured(settings: Settings) -> bool:
    """Tell whether Kafka asks for TLS and a password."""
    return settings.secure or switch(settings).exists()


def environment(settings: Settings) -> dict[str, str]:
    """The settings for the pipeline's own processes, which need no switch to know that it is
    secured: Flink's jobs read it there (flink-jobs/jobs/options.py)."""
    return settings.environment() | {variable("secure"): str(is_secured(settings))}


def password_file(settings: Settings, principal: str) -> Path:
    """Where a principal's password stands, mode 600."""
    return settings.secrets / f"kafka_{principal}"


def authority(settings: Settings) -> Path:
    """The certificate of who signs certificates; it is no secret."""
    return settings.certificates / "ca.crt"


def password(settings: Settings, principal: str) -> str:
    """Read a principal's password. Raises UserError where there is none."""
    try:
        return password_file(settings, principal).read_text().strip()
    except FileNotFoundError:
        raise UserError(
            f"There is no password of Kafka's {principal} in {settings.secrets};"
            " `stunwatch up --secure` makes it."
        ) from None


def kafka_access(settings: Settings, principal: str) -> Access:
    """How a principal reaches Kafka. Raises UserError where its password is missing."""
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
