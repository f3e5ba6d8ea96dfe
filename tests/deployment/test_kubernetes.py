"""The manifests fit the published schemas, need no privileges, and equal local mode."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from stunwatch.local import flink, kafka
from stunwatch.local.principals import granted
from stunwatch.settings import ROOT, load_settings, versions
from tests.deployment.kustomized import K8S, OVERLAYS, Manifest, overlay, pods
from tools import manifests

SCHEMAS = Path(__file__).with_name("operators")
CORE = json.loads((SCHEMAS / "kubernetes.json").read_text())
PRODUCTION = (ROOT / "docs" / "production.md").read_text()

VALUES = {
    *("fullnameOverride", "image", "runAsUser", "init", "postgresql", "redis", "envFromSecrets"),
    *("extraEnv", "extraVolumes", "extraVolumeMounts", "supersetNode", "supersetWorker"),
    "supersetCeleryBeat",
}
"""The values of Superset's chart that are set."""


@cache
def validator(kind: str) -> Validator:
    if kind in CORE["kinds"]:
        schema = {"$defs": CORE["$defs"], **CORE["kinds"][kind], "$schema": CORE["$schema"]}
    else:
        schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    return validator_for(schema)(schema)


def faults(manifest: Manifest) -> list[str]:
    return [
        f"{'.'.join(map(str, each.absolute_path))}: {each.message}"
        for each in validator(manifest["kind"]).iter_errors(manifest)
    ]


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    [found] = [
        each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_manifest_fits_its_published_schema(name: str) -> None:
    found = {f"{each['kind']}/{each['metadata']['name']}": faults(each) for each in overlay(name)}
    assert len(found) == len(overlay(name))
    assert {key: said for key, said in found.items() if said} == {}


@pytest.mark.parametrize(
    ("kind", "name", "where", "value"),
    [
        ("Kafka", "stunwatch", ("spec", "kafka", "listener"), []),
        ("KafkaUser", "flink", ("spec", "authentication", "type"), "plain"),
        ("KafkaTopic", "esxi.syslog", ("spec", "partitions"), "two"),
        ("FlinkDeployment", "live", ("spec", "job", "upgradeMode"), "never"),
        ("FlinkDeployment", "live", ("spec", "flinkVersion"), "v9_9"),
        ("ClickHouseInstallation", "stunwatch", ("spec", "cluster"), {}),
        ("StatefulSet", "fluent-bit", ("spec", "template", "spec", "container"), []),
        ("NetworkPolicy", "syslog", ("spec", "ingres"), []),
    ],
)
def test_an_unknown_field_or_value_is_found(
    kind: str, name: str, where: tuple[str, ...], value: Any
) -> None:
    manifest = copy.deepcopy(named(overlay("lab"), kind, name))
    place = manifest
    for each in where[:-1]:
        place = place[each]
    place[where[-1]] = value
    assert faults(manifest)


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_pod_complies_with_the_restricted_standard(name: str) -> None:
    found = pods(overlay(name))
    assert len(found) > 8
    for key, pod in found.items():
        own = pod["spec"]["securityContext"]
        assert own["runAsNonRoot"] and own["runAsUser"] > 0, key
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}, key
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod["spec"]), key
        containers = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
        for each in containers:
            rights = each["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False, key
            assert rights["capabilities"] == {"drop": ["ALL"]}, key
            # Operators write ClickHouse's configuration into its folders.
            assert rights.get("readOnlyRootFilesystem") or key.startswith("ClickHouse"), key
            # A FlinkDeployment has its limits outside the template.
            assert "limits" in each.get("resources", {}) or key.startswith("Flink"), key
        assert all("hostPath" not in each for each in pod["spec"].get("volumes", [])), key
        is_ours = key.startswith(("Deployment", "StatefulSet", "Job"))
        assert not is_ours or pod["spec"]["automountServiceAccountToken"] is False, key


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_namespace_enforces_the_restricted_standard_and_contains_everything(name: str) -> None:
    labels = named(overlay(name), "Namespace", "stunwatch")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for each in overlay(name):
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "stunwatch"


def test_generated_manifests_equal_local_mode() -> None:
    for name, text in manifests.manifests().items():
        assert (manifests.FOLDER / name).read_text() == text, (
            f"{name} is old: python -m tools.manifests"
        )
    assert {each.name for each in manifests.FOLDER.iterdir()} == set(manifests.manifests())


RAW = {"esxi.syslog", "esxi.vmware_log", "esxi.esxtop", "esxi.vcenter", "esxi.backfill"}


def test_topics_and_users_are_those_of_local_mode() -> None:
    found = overlay("production")
    topics = {
        each["spec"]["topicName"]: each["spec"] for each in found if each["kind"] == "KafkaTopic"
    }
    assert set(topics) == set(kafka.wanted_topics())
    for name, each in kafka.wanted_topics().items():
        is_raw = name in RAW
        assert (topics[name]["partitions"] == 24) == is_raw, name
        assert topics[name]["config"] == each["config"]
        assert is_raw or topics[name]["partitions"] == each["partitions"]
    users = {each["metadata"]["name"] for each in found if each["kind"] == "KafkaUser"}
    assert users == set(granted())


def test_a_user_gets_only_the_listed_permissions() -> None:
    [bit] = [each for each in manifests.users() if each["metadata"]["name"] == "fluent-bit"]
    given = {
        (acl["resource"]["name"], operation)
        for acl in bit["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    raw = ("esxi.syslog", "esxi.vmware_log", "esxi.esxtop", "esxi.rejected")
    assert given == {(topic, "Write") for topic in raw}


def test_clickhouse_on_kubernetes_has_the_users_and_the_collection_of_local_mode() -> None:
    files = manifests.configuration()["spec"]["configuration"]["files"]
    users, servers = files["users.d/stunwatch.xml"], files["config.d/stunwatch.xml"]
    for user in ("admin", "ingest", "transform", "reader"):
        assert f"<{user}>" in users
    assert "<password></password>" not in users
    assert "GRANT TABLE ENGINE ON ReplicatedReplacingMergeTree" in users
    assert "<stunwatch_kafka>" in servers
    assert "sasl" not in servers.lower()
    # The memory of queries, inserts and readers fits into a pod.
    pod = named(overlay("lab"), "ClickHouseInstallation", "stunwatch")["spec"]["templates"]
    memory = pod["podTemplates"][0]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    profiles = ElementTree.fromstring(users)
    for path in ("default/max_memory_usage", "reader/max_memory_usage_for_user"):
        assert int(profiles.findtext(f"profiles/{path}", "")) < int(memory.removesuffix("Gi")) << 29
    # All variables that the configuration reads are set.
    server = pods(overlay("lab"))["ClickHouseInstallation/stunwatch"]["spec"]["containers"][0]
    given = {each["name"] for each in server["env"]}
    assert set(re.findall(r'from_env="(\w+)"', users + servers)) == given


@pytest.mark.parametrize("name", OVERLAYS)
def test_images_and_versions_are_those_of_local_mode(name: str) -> None:
    wanted = versions()
    images = {
        each["image"] for each in wanted.values() if isinstance(each, dict) and "image" in each
    }
    clickhouse = wanted["clickhouse"]["image"]
    images.add(clickhouse.replace("clickhouse-server", "clickhouse-keeper"))
    for key, pod in pods(overlay(name)).items():
        for each in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
            image = each.get("image", wanted["flink"]["image"])
            assert image.removeprefix("registry.example/") in images, key
    broker = named(overlay(name), "Kafka", "stunwatch")["spec"]["kafka"]
    assert broker["version"] == wanted["kafka"]["version"]
    spec = named(overlay(name), "FlinkDeployment", "live")["spec"]
    assert spec["image"].removeprefix("registry.example/") == wanted["flink"]["image"]
    major, minor, _ = wanted["flink"]["version"].split(".")
    assert spec["flinkVersion"] == f"v{major}_{minor}"


def test_kafka_is_configured_as_in_local_mode() -> None:
    local = dict(
        line.split("=", 1)
        for line in (kafka.CONFIG / "server.properties").read_text().splitlines()
        if line and not line.startswith("#")
    )
    there = named(overlay("lab"), "Kafka", "stunwatch")["spec"]["kafka"]["config"]
    # On one node, everything has one replica, as in local mode.
    assert {key: str(value) for key, value in there.items()}.items() <= local.items()
    assert set(there) == set(
        named(overlay("production"), "Kafka", "stunwatch")["spec"]["kafka"]["config"]
    )


OF_THE_PLACE = re.compile(
    r"(jobmanager|taskmanager)\.(bind-host|host|rpc|memory|execution|numberOfTaskSlots).*|blob\..*|rest\..*|web\..*"
    r"|execution\.checkpointing\.(savepoint-)?dir|execution\.state-recovery.*|python\.(client\.)?executable"
    r"|io\..*|env\..*|metrics\..*"
)
"""Settings of Flink that the operator or the size of a pod determines."""


def test_flink_is_configured_as_in_local_mode() -> None:
    local = flat(yaml.safe_load((flink.CONFIG / "config.yaml").read_text()))
    there = named(overlay("production"), "FlinkDeployment", "live")["spec"]["flinkConfiguration"]
    shared = {key: value for key, value in local.items() if not OF_THE_PLACE.fullmatch(key)}
    assert len(shared) > 12
    assert {key: there.get(key) for key in shared} == shared
    # Python in thread mode uses one core of a TaskManager.
    assert there["taskmanager.numberOfTaskSlots"] == "1"
    assert there["high-availability.type"] == "kubernetes"
    for key in ("checkpointing.dir", "checkpointing.savepoint-dir"):
        assert there[f"execution.{key}"].startswith("s3://stunwatch/flink/live/")


def flat(tree: dict[str, Any], before: str = "") -> dict[str, str]:
    """Flatten nested settings to {"a.b": text}, Flink's format."""
    found: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            found |= flat(value, f"{before}{key}.")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found[f"{before}{key}"] = text
    return found


def test_the_live_job_is_upgraded_with_a_savepoint_and_its_arguments_are_valid() -> None:
    job = named(overlay("production"), "FlinkDeployment", "live")["spec"]["job"]
    assert job["upgradeMode"] == "savepoint"
    words = job["args"]
    assert words[words.index("--parallelism") + 1] == str(job["parallelism"])
    script = words[words.index("-py") + 1]
    assert (ROOT / script.removeprefix("/opt/stunwatch/")).exists()
    # The scripts that the operator starts are in the distribution from PyPI.
    for name in ("kubernetes-jobmanager.sh", "kubernetes-taskmanager.sh"):
        assert (flink.distribution() / "bin" / name).exists()
    dockerfile = (flink.CONFIG / "Dockerfile").read_text()
    there = named(overlay("production"), "FlinkDeployment", "live")["spec"]["flinkConfiguration"]
    home = there["kubernetes.flink.conf.dir"].removesuffix("/conf")
    assert f"FLINK_HOME={home} " in dockerfile
    assert job["jarURI"].endswith(f"/flink-python-{versions()['flink']['version']}.jar")


def test_the_config_map_contains_known_settings_and_ports_with_listeners() -> None:
    found = overlay("lab")
    data = named(found, "ConfigMap", "stunwatch")["data"]
    assert set(data) <= set(load_settings({}).environment())
    listeners = named(found, "Kafka", "stunwatch")["spec"]["kafka"]["listeners"]
    ports = {each["name"]: each["port"] for each in listeners}
    assert int(data["STUNWATCH_KAFKA_PORT"]) == ports["password"]
    assert all(each["tls"] and each["authentication"] for each in listeners)
    installation = named(found, "ClickHouseInstallation", "stunwatch")["spec"]
    [cluster] = installation["configuration"]["clusters"]
    assert data["STUNWATCH_CLICKHOUSE_CLUSTER"] == cluster["name"]
    server = pods(found)["ClickHouseInstallation/stunwatch"]["spec"]["containers"][0]
    environment = {each["name"]: each.get("value") for each in server["env"]}
    assert environment["STUNWATCH_KAFKA_BOOTSTRAP"].endswith(f":{ports['mutual']}")


def test_production_has_two_shards_of_two_replicas_and_three_brokers_controllers_and_keepers() -> (
    None
):
    found = overlay("production")
    [cluster] = named(found, "ClickHouseInstallation", "stunwatch")["spec"]["configuration"][
        "clusters"
    ]
    assert cluster["layout"] == {"shardsCount": 2, "replicasCount": 2}
    [keepers] = named(found, "ClickHouseKeeperInstallation", "stunwatch")["spec"]["configuration"][
        "clusters"
    ]
    assert keepers["layout"] == {"replicasCount": 3}
    for pool in ("broker", "controller"):
        assert named(found, "KafkaNodePool", pool)["spec"]["replicas"] == 3


def test_the_repository_contains_no_secret_and_documents_each() -> None:
    used: set[str] = set()
    for name in OVERLAYS:
        assert all(each["kind"] != "Secret" for each in overlay(name))
        text = json.dumps([pod["spec"] for pod in pods(overlay(name)).values()])
        used |= set(re.findall(r'"secretName": "([\w-]+)"', text))
        used |= set(re.findall(r'"secretKeyRef": {[^}]*"name": "([\w-]+)"', text))
        used |= set(re.findall(r'"secretRef": {"name": "([\w-]+)"', text))
        used |= set(re.findall(r'"secret": {[^}]*}?\]?, "name": "([\w-]+)"}', text))
    by_strimzi = {each["metadata"]["name"] for each in manifests.users()}
    by_strimzi.add("stunwatch-cluster-ca-cert")
    assert {"clickhouse-users", "syslog-tls", "object-storage", "vcenter"} <= used
    for each in used - by_strimzi:
        assert f"`{each}`" in PRODUCTION, f"docs/production.md does not say what {each} holds"


@pytest.mark.parametrize("name", OVERLAYS)
def test_network_policies_and_labels_match_the_connections_of_every_pod(name: str) -> None:
    found = overlay(name)
    policies = [each for each in found if each["kind"] == "NetworkPolicy"]
    everybody = named(found, "NetworkPolicy", "nobody")["spec"]
    assert everybody == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for key, pod in pods(found).items():
        text = json.dumps(pod["spec"])
        asks_kafka = "kafka_" in text or "STUNWATCH_KAFKA_BOOTSTRAP" in text
        labels = pod["labels"]
        assert (labels.get("stunwatch.io/talks-to-kafka") == "true") == asks_kafka, key
        users = ("reader", "analyst", "admin")
        asks_clickhouse = any(f'"path": "{user}"' in text for user in users)
        assert (labels.get("stunwatch.io/talks-to-clickhouse") == "true") == asks_clickhouse, key
    # A policy for pods that do not exist would be a typing error.
    known = {
        *("strimzi.io/cluster", "clickhouse.altinity.com/chi", "type", "app"),
        *("clickhouse-keeper.altinity.com/chk", "app.kubernetes.io/instance"),
    }
    made = [pod["labels"].items() for pod in pods(found).values()]
    for each in policies:
        wanted = each["spec"]["podSelector"].get("matchLabels", {})
        is_made = any(wanted.items() <= labels for labels in made)
        assert set(wanted) <= known or is_made, each["metadata"]["name"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_workload_with_replicas_has_a_disruption_budget(name: str) -> None:
    kept = [
        each["spec"]["selector"]["matchLabels"]
        for each in overlay(name)
        if each["kind"] == "PodDisruptionBudget"
    ]
    for each in overlay(name):
        if each["kind"] in {"Deployment", "StatefulSet"} and each["spec"]["replicas"] > 1:
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert any(wanted.items() <= labels.items() for wanted in kept), each["metadata"]


def test_supersets_chart_uses_our_image_and_restricted_pods() -> None:
    values = yaml.safe_load((K8S / "superset" / "values.yaml").read_text())
    assert set(values) == VALUES
    image = f"{values['image']['repository']}:{values['image']['tag']}"
    assert image == versions()["superset"]["image"]
    node = values["supersetNode"]
    assert node["podSecurityContext"]["runAsNonRoot"] is True
    assert node["containerSecurityContext"]["capabilities"] == {"drop": ["ALL"]}
    data = named(overlay("lab"), "ConfigMap", "stunwatch")["data"]
    assert data["STUNWATCH_SUPERSET_PORT"] == values["extraEnv"]["STUNWATCH_SUPERSET_PORT"]
    assert not any("PASSWORD" in each or "SECRET" in each for each in values["extraEnv"])
