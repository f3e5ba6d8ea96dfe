"""How the tables of jobs/*.sql reach Kafka: options of their WITH clauses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PRINCIPAL = "flink"
"""Whose rights the jobs have (infra/kafka/acls.yaml)."""

KAFKA = "org.apache.flink.kafka.shaded.org.apache.kafka.common"
"""Where the connector's jar keeps Kafka's own classes."""


def kafka_options(bootstrap: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Options of a table that reads or writes the Kafka at `bootstrap` (host:port).

    Where STUNWATCH_SECURE is set they name files under STUNWATCH_HOME, in which the JVM finds the
    authority and the password: the password itself is in no plan, checkpoint or log.
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


def in_sql(options: Mapping[str, str]) -> str:
    """Lines of a table's WITH clause."""
    return ",\n  ".join(f"'{key}' = '{quoted(value)}'" for key, value in options.items())


def quoted(text: str) -> str:
    """The inside of an SQL string literal."""
    return text.replace("'", "''")
