"""Apache Kafka: one node, broker and controller in one, and its topics."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from stunwatch import access
from stunwatch.errors import UserError
from stunwatch.runtime import checks, principals
from stunwatch.runtime.component import Component, Launch
from stunwatch.settings import ROOT, Settings, versions

CONFIG = ROOT / "infra" / "kafka"
TIMEOUT_SECONDS = 10.0


def jars(settings: Settings) -> Path:
    """The folder of the broker's jars."""
    return settings.build / f"kafka-{versions()['kafka']['version']}"


def launch(settings: Settings) -> Launch:
    """Write the broker's configuration and format its folder once."""
    data = settings.home / "kafka"
    is_secured = access.is_secured(settings)
    files = ("server.properties", "secure.properties") if is_secured else ("server.properties",)
    properties = settings.run / "kafka.properties"
    properties.write_text(
        Template("\n".join((CONFIG / each).read_text() for each in files)).substitute(
            kafka_port=settings.kafka_port,
            kafka_controller_port=settings.kafka_controller_port,
            data=data,
            secrets=settings.secrets,
            certificates=settings.certificates,
        )
    )
    java = [checks.java(), "-cp", f"{jars(settings)}/*"]
    java.append(f"-Dlog4j2.configurationFile=file:{CONFIG / 'log4j2.properties'}")
    if is_secured:
        principals.make_what_is_missing(settings)
    if not (data / "meta.properties").exists():
        # Formatting writes this file last; without it no broker has ever run here.
        shutil.rmtree(data, ignore_errors=True)
        principals.forget_what_is_told(settings)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)],
            check=True,
        )
    options = ["-Xms128m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    return Launch([*java, *options, "kafka.Kafka", str(properties)])


def ailment(settings: Settings) -> str | None:
    """Ask the broker for its topics; return why it does not answer, None if it does."""
    try:
        socket.create_connection((settings.kafka_host, settings.kafka_port), timeout=1).close()
    except OSError:
        return f"nothing listens on {settings.bootstrap}"
    from confluent_kafka import KafkaException  # noqa: PLC0415 (slow to import)

    try:
        administrator(settings).list_topics(timeout=2)
    except KafkaException as error:
        return f"{settings.bootstrap} does not answer: {error.args[0].str()}"
    except UserError as error:
        return str(error)
    return None


COMPONENT = Component("kafka", after=(), launch=launch, ailment=ailment, stop_seconds=60)


def administrator(settings: Settings) -> Any:
    """Return an AdminClient that keeps its connection troubles to itself."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 (slow to import)

    return AdminClient(access.kafka_access(settings, access.ADMIN) | {"log_level": 0})


def apply_principals(settings: Settings) -> None:
    """Where Kafka is secured, give everybody its password and its rights.

    Raises:
        UserError: the broker refuses one.
    """
    if access.is_secured(settings):
        principals.apply(settings, administrator(settings))


def wanted_topics() -> dict[str, dict[str, Any]]:
    """Read topics.yaml: {topic: {"partitions": int, "config": {name: text}}}, defaults applied."""
    text = yaml.safe_load((CONFIG / "topics.yaml").read_text())
    defaults = text["defaults"]
    return {
        name: {
            "partitions": own.get("partitions", defaults["partitions"]),
            "config": {
                key: str(value)
                for key, value in (defaults["config"] | own.get("config", {})).items()
            },
        }
        for name, own in text["topics"].items()
    }


def apply_topics(settings: Settings) -> list[str]:
    """Create the topics that are missing and alter those that differ; return their names.

    A topic never loses partitions: keys would move.

    Raises:
        UserError: the broker refuses a topic.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415 (slow to import)
    from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, ResourceType  # noqa: PLC0415

    admin = administrator(settings)
    wanted = wanted_topics()
    present = admin.list_topics(timeout=TIMEOUT_SECONDS).topics
    changed = {name for name in wanted if name not in present}
    grown = {
        name: topic["partitions"]
        for name, topic in wanted.items()
        if name in present and len(present[name].partitions) < topic["partitions"]
    }
    try:
        if changed:
            _finish(
                admin.create_topics(
                    [
                        NewTopic(name, wanted[name]["partitions"], 1, config=wanted[name]["config"])
                        for name in changed
                    ]
                )
            )
        if grown:
            _finish(admin.create_partitions([NewPartitions(*each) for each in grown.items()]))
            changed |= grown.keys()
        resources = [
            ConfigResource(ResourceType.TOPIC, name) for name in wanted if name not in changed
        ]
        actual = _finish(admin.describe_configs(resources)) if resources else {}
        altered = []
        for resource, entries in actual.items():
            config = wanted[resource.name]["config"]
            if any(entries[key].value != value for key, value in config.items()):
                altered.append(ConfigResource(ResourceType.TOPIC, resource.name, set_config=config))
        if altered:
            _finish(admin.alter_configs(altered))
            changed |= {each.name for each in altered}
    except KafkaException as error:
        raise UserError(f"Kafka refused a topic of topics.yaml: {error.args[0].str()}.") from error
    return sorted(changed)


def _finish(futures: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: future.result(timeout=TIMEOUT_SECONDS) for key, future in futures.items()}
