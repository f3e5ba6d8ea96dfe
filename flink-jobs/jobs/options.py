"""The statements of jobs/*.sql, and the Kafka options in their WITH clauses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

PRINCIPAL = "flink"
"""The Kafka user of the jobs (infra/kafka/acls.yaml)."""

STATE = 14
"""The format version of the jobs' state. If it differs from a checkpoint's, a job starts at the
oldest message in Kafka instead. Raise it if older checkpoints cannot be read; a test compares the
classes of the state with tests/detectors/state_format.yaml and says so."""

KAFKA = "org.apache.flink.kafka.shaded.org.apache.kafka.common"
"""The package of Kafka's classes inside the connector's jar."""


def filled(name: str, given: Mapping[str, Any]) -> list[str]:
    """Return the statements of a file next to this one, with its placeholders replaced."""
    text = Path(__file__).with_name(name).read_text()
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    statements = Template(code).substitute(given)
    return [part.strip() for part in (statements + "\n").split(";\n") if part.strip()]


def kafka_options(bootstrap: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the options of a table that reads or writes the Kafka at `bootstrap` (host:port).

    If STUNWATCH_SECURE is set, they refer to files under STUNWATCH_HOME from which the JVM reads
    the CA certificate and the password. The password itself is in no plan, checkpoint or log.
    """
    options = {"properties.bootstrap.servers": bootstrap}
    if environment.get("STUNWATCH_SECURE", "").lower() not in ("1", "true"):
        return options
    home = Path(environment["STUNWATCH_HOME"])
    password = f"${{dir:{home / 'secrets'}:kafka_{PRINCIPAL}}}"
    return options | {
        "properties.security.protocol": "SASL_SSL",
        "properties.ssl.truststore.type": "PEM",
        "properties.ssl.truststore.location": str(home / "tls" / "ca.crt"),
        "properties.sasl.mechanism": "SCRAM-SHA-512",
        "properties.sasl.jaas.config": (
            f"{KAFKA}.security.scram.ScramLoginModule required"
            f' username="{PRINCIPAL}" password="{password}";'
        ),
        "properties.config.providers": "dir",
        "properties.config.providers.dir.class": f"{KAFKA}.config.provider.DirectoryConfigProvider",
    }


FEW_AT_ONCE = {"properties.max.poll.records": "100"}
"""Scan options that bound the memory of a task. It has four times as many messages in memory: those
of the last poll, two parts that wait, and one being processed. The longest have 0.4 MB. With
Kafka's default, 500, a backlog of long lines exceeds the heap, after each restart again."""


def in_sql(options: Mapping[str, str]) -> str:
    """Return the options as lines of a WITH clause."""
    return ",\n  ".join(f"'{key}' = '{quoted(value)}'" for key, value in options.items())


def quoted(text: str) -> str:
    """Escape text for an SQL string literal."""
    return text.replace("'", "''")
