"""Apache Kafka: one node that is both broker and controller, and its topics."""

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

from stunwatch import access
from stunwatch.definitions import events
from stunwatch.errors import UserError
from stunwatch.ingest import yaml_file
from stunwatch.local import checks, principals
from stunwatch.local.component import Component, Launch
from stunwatch.settings import ROOT, Settings, versions

CONFIG = ROOT / "infra" / "kafka"
TIMEOUT_SECONDS = 10.0


def jars(settings: Settings) -> Path:
    """Return the folder of the broker's jars."""
    return settings.build / f"kafka-{versions()['kafka']['version']}"


def launch(settings: Settings) -> Launch:
    """Write the broker's configuration, and format its data folder once."""
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
        # Formatting writes this file last. Without it, no broker has ever run here.
        shutil.rmtree(data, ignore_errors=True)
        principals.forget_what_is_told(settings)
        # It runs for a second, so compile quickly.
        compiling = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        formatting = [*java, *compiling, "kafka.tools.StorageTool", "format", "-c", str(properties)]
        subprocess.run([*formatting, "-t", _new_cluster_id()], check=True)
    options = ["-Xms128m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    if not is_secured:
        # Without the second compiler (C2), which costs more CPU than it saves
        # (docs/decisions/0003). With TLS it is needed: only its code uses the processor's
        # instructions for AES.
        options.append("-XX:TieredStopAtLevel=1")
    return Launch([*java, *options, "kafka.Kafka", str(properties)])


def _new_cluster_id() -> str:
    """Return 16 random bytes in Kafka's base64, not starting with a dash.

    Kafka parses an id that begins with a dash as an option, and never generates one itself.
    """
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))[0] == "-":
        pass
    return made


def unhealthy_reason(settings: Settings) -> str | None:
    """List the broker's topics; return the problem, None if it answers."""
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


COMPONENT = Component(
    "kafka", after=(), launch=launch, unhealthy_reason=unhealthy_reason, stop_seconds=60
)


def administrator(settings: Settings) -> Any:
    """Return an AdminClient that does not log connection errors."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 (slow to import)

    return AdminClient(access.kafka_access(settings, access.ADMIN) | {"log_level": 0})


def apply_principals(settings: Settings) -> None:
    """If Kafka is secured, set all passwords and permissions.

    Raises:
        UserError: the broker rejects one.
    """
    if access.is_secured(settings):
        principals.apply(settings, administrator(settings))


def wanted_topics() -> dict[str, dict[str, Any]]:
    """Return {topic: {"partitions": int, "config": {name: text}}}, with defaults.

    The topics of records are in topics.yaml, those of events in schemas/.
    """
    text = yaml_file.read(CONFIG / "topics.yaml")
    defaults = text["defaults"]
    of_events = {
        topic: {"config": {**text["events"]["config"], "retention.ms": event.kafka_ms}}
        for topic, event in events().items()
    }
    return {
        name: {
            "partitions": own.get("partitions", defaults["partitions"]),
            "config": {
                key: str(value)
                for key, value in (defaults["config"] | own.get("config", {})).items()
            },
        }
        for name, own in (text["topics"] | of_events).items()
    }


def apply_topics(settings: Settings) -> list[str]:
    """Create missing topics and alter those that differ; return their names.

    Partitions are never removed, because keys would move to other partitions.

    Raises:
        UserError: the broker rejects a topic.
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
        raise UserError(
            f"Kafka refused a topic: {error.args[0].str()}."
            " Correct it in infra/kafka/topics.yaml or schemas."
        ) from error
    return sorted(changed)


def _finish(futures: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: future.result(timeout=TIMEOUT_SECONDS) for key, future in futures.items()}
