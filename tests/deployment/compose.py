"""Read docker-compose.yml and list its errors as sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import Any
from xml.etree import ElementTree

import yaml

from stunwatch.local import clickhouse
from stunwatch.settings import ROOT, load_settings, versions

FILE = ROOT / "docker-compose.yml"
PROFILES = ("core", "dashboards", "alerts", "collect", "metrics", "command")
IMAGES = {
    "kafka": "kafka",
    "clickhouse": "clickhouse",
    "fluent-bit": "fluent_bit",
    "superset": "superset",
    "postgres": "postgres",
    "redis": "redis",
    "prometheus": "prometheus",
}
"""Service → its section of versions.toml. All other services run the project's image."""

SYSLOG = {
    "fluent-bit": {"10514/udp"},
    "receive": {"10514/tcp", "10601/tcp", "1514/tcp", "6514/tcp"},
}
ENDS = {"setup", "stunwatch"}
"""Services that run once and exit. `up --wait` starts `setup`, and other services wait for it."""

WITHOUT_HEALTH = {"fluent-bit", "collect-vmlogs", "collect-latency", "collect-inventory"}
"""Services without a health check. The file contains the reason."""

MAY_LEAVE = {
    *("fluent-bit", "receive", "superset", "alerts"),
    *("collect-vmlogs", "collect-latency", "collect-inventory"),
}
"""Services with connections to or from the outside."""

OF_COMMANDS = (
    "STUNWATCH_VCENTER",
    "STUNWATCH_SYSLOG",
    "STUNWATCH_TLS",
    "STUNWATCH_LISTEN",
    "STUNWATCH_FLUENT",
)
"""Prefixes of variables that only a command reads."""

PATHS = {
    "kafka": {"./infra/kafka:/opt/stunwatch/kafka:ro"},
    "clickhouse": {"./infra/clickhouse:/etc/stunwatch:ro"},
    "fluent-bit": {"./ingest:/opt/stunwatch/ingest:ro"},
    "alerts": {"./infra/alerts:/opt/stunwatch/infra/alerts:ro"},
    "prometheus": {
        "./infra/prometheus/prometheus.yaml:/etc/prometheus/prometheus.yaml:ro",
        "./infra/prometheus/rules.yaml:/etc/prometheus/rules.yaml:ro",
        "./infra/prometheus/containers:/etc/prometheus/targets:ro",
    },
}
"""Configuration files shared with local mode. sql/, flink-jobs/ and the topics are in the image."""


def read(text: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text() if text is None else text)
    return found


def with_profiles(compose: dict[str, Any], active: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the services that these profiles start."""
    wanted = set(active)
    return {
        name: each for name, each in compose["services"].items() if wanted & set(each["profiles"])
    }


def all_profiles() -> Iterator[tuple[str, ...]]:
    """Return every combination of profiles, except the empty one."""
    return chain.from_iterable(
        combinations(PROFILES, count) for count in range(1, len(PROFILES) + 1)
    )


def faults(compose: dict[str, Any]) -> list[str]:
    """Describe each violation of a rule, and each difference from local mode."""
    return [
        *_unresolved(compose),
        *_undefined(compose),
        *_soft(compose),
        *_open_to_others(compose),
        *_published(compose),
        *_other_versions(compose),
        *_other_configuration(compose),
        *_other_users(compose),
    ]


def _unresolved(compose: dict[str, Any]) -> Iterator[str]:
    for profiles in all_profiles():
        services = with_profiles(compose, profiles)
        for name, service in services.items():
            for needed, said in service.get("depends_on", {}).items():
                if needed not in services:
                    yield f"{name} needs {needed}, which {', '.join(profiles)} does not start"
                elif (
                    said["condition"] == "service_healthy"
                    and "healthcheck" not in (services[needed])
                ):
                    yield f"{name} waits for the health of {needed}, which has none"
        waits = [each.get("depends_on", {}).get("setup") for each in services.values()]
        if "setup" in services and {"condition": "service_completed_successfully"} not in waits:
            yield "nobody waits for setup, and up --wait fails"


def _undefined(compose: dict[str, Any]) -> Iterator[str]:
    for kind in ("secrets", "volumes", "networks"):
        used = set()
        for service in compose["services"].values():
            for each in service.get(kind, []):
                source = each["source"] if isinstance(each, dict) else each.split(":")[0]
                if not source.startswith("."):
                    used.add(source)
                elif not (ROOT / source).exists():
                    yield f"there is no {source}"
        if used != set(compose[kind]):
            yield f"{kind}: {sorted(used ^ set(compose[kind]))} are used or defined, not both"
    for name, secret in compose["secrets"].items():
        if not secret["file"].startswith("./secrets/"):
            yield f"the secret {name} is not in ./secrets"


def _soft(compose: dict[str, Any]) -> Iterator[str]:
    for name, service in compose["services"].items():
        if not service.get("read_only"):
            yield f"{name} writes to its root"
        if (
            service.get("cap_drop") != ["ALL"]
            or service.get("cap_add")
            or service.get("privileged")
        ):
            yield f"{name} has capabilities"
        if service.get("security_opt") != ["no-new-privileges:true"]:
            yield f"{name} may gain privileges"
        if service.get("user", "0").split(":")[0] in {"0", "root"}:
            yield f"{name} is root"
        limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
        if set(limits) != {"cpus", "memory"}:
            yield f"{name} may take all of the machine"
        if "healthcheck" not in service and name not in ENDS | WITHOUT_HEALTH:
            yield f"{name} has no health"


def _open_to_others(compose: dict[str, Any]) -> Iterator[str]:
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            is_secret = re.search("PASSWORD|SECRET|CREDENTIAL|_KEY$", variable)
            if is_secret and not str(value).startswith("/run/secrets/"):
                yield f"{name} has {variable} in its environment"
        if service.get("network_mode") or "pipeline" not in service["networks"]:
            yield f"{name} is in no network of its own"
        if "outside" in service["networks"] and name not in MAY_LEAVE:
            yield f"{name} reaches the world"
    if compose["networks"]["pipeline"] != {"internal": True}:
        yield "the network of the pipeline is open"


def _published(compose: dict[str, Any]) -> Iterator[str]:
    superset = f"{load_settings({}).superset_port}:8088/tcp"
    allowed = {
        name: {f"{each.split('/')[0]}:{each}" for each in ports} for name, ports in SYSLOG.items()
    }
    allowed["superset"] = {superset}
    for name, service in compose["services"].items():
        published = set()
        for each in service.get("ports", []):
            address, _, ports = each.rpartition("}:")
            published.add(ports)
            if address != "${STUNWATCH_PUBLISH:-127.0.0.1":
                yield f"{name} publishes {each} on more than loopback"
        if published != allowed.get(name, set()):
            yield f"{name} publishes {sorted(published)}"


def _other_versions(compose: dict[str, Any]) -> Iterator[str]:
    for name, service in compose["services"].items():
        wanted = versions()[IMAGES.get(name, "flink")]["image"]
        if service["image"] != wanted:
            yield f"{name} runs {service['image']}, local mode {wanted}"


def _other_configuration(compose: dict[str, Any]) -> Iterator[str]:
    for name, paths in PATHS.items():
        if missing := paths - set(compose["services"][name].get("volumes", [])):
            yield f"{name} does not read {sorted(missing)}"
    text = "".join((clickhouse.CONFIG / each).read_text() for each in ("config.xml", "users.xml"))
    service = compose["services"]["clickhouse"]
    given = set(service["environment"]) | {
        each["target"] for each in service["secrets"] if isinstance(each, dict)
    }
    for variable in set(re.findall(r'from_env="(\w+)"', text)) - given:
        yield f"clickhouse is not told {variable}"
    known = set(load_settings({}).environment())
    for name, each in compose["services"].items():
        if name in IMAGES:
            continue
        for variable in set(each["environment"]) - known:
            if not variable.startswith(OF_COMMANDS):
                yield f"{name} is told {variable}, which is no setting"
    # Both sides of a connection must use the same port.
    for variable, port in _ports_of_clients(compose):
        listening = {
            "STUNWATCH_KAFKA_PORT": 9092,
            "STUNWATCH_CLICKHOUSE_HTTP_PORT": service["environment"][
                "STUNWATCH_CLICKHOUSE_HTTP_PORT"
            ],
            "STUNWATCH_SUPERSET_PORT": compose["services"]["superset"]["environment"][
                "STUNWATCH_SUPERSET_PORT"
            ],
        }
        if variable in listening and listening[variable] != port:
            yield f"{variable} is {port}, and {listening[variable]} listens"
    if f"listeners=CLIENTS://:{9092}," not in (ROOT / "infra/kafka/start").read_text():
        yield "Kafka listens on another port"


def _ports_of_clients(compose: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for service in compose["services"].values():
        for variable, value in service.get("environment", {}).items():
            if variable.endswith("_PORT"):
                yield variable, value


def _other_users(compose: dict[str, Any]) -> Iterator[str]:
    principals = {"admin", *yaml.safe_load((ROOT / "infra/kafka/acls.yaml").read_text())}
    told = {
        each["source"].removeprefix("kafka_")
        for each in compose["services"]["kafka"]["secrets"]
        if each["source"].startswith("kafka_")
    }
    if told != principals:
        yield f"Kafka's users differ from acls.yaml: {sorted(told ^ principals)}"
    users = ElementTree.parse(clickhouse.CONFIG / "users.xml").find("users")
    assert users is not None
    wanted = {each.tag for each in users} - {"default"}
    targets = "".join(str(each) for each in compose["services"]["clickhouse"]["secrets"])
    for user in wanted:
        if f"STUNWATCH_CLICKHOUSE_{user.upper()}_PASSWORD" not in targets:
            yield f"ClickHouse has no password of {user}"
