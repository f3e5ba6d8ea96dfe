"""Generates Kubernetes manifests from local mode's files: topics, users, ClickHouse settings.

    python -m tools.manifests

writes them to infra/k8s/base/generated, and the packages to install in Superset's image to
infra/superset/requirements.txt. A test fails if the files are out of date.
"""

from __future__ import annotations

import tomllib
from typing import Any
from xml.etree import ElementTree

import yaml

from stunwatch.local import clickhouse, kafka, superset
from stunwatch.local.principals import granted
from stunwatch.schema import REPLICATED, SHARD
from stunwatch.settings import ROOT

FOLDER = ROOT / "infra" / "k8s" / "base" / "generated"
HEADER = "# Written by `python -m tools.manifests` from {source}.\n"
LABELS = {"strimzi.io/cluster": "stunwatch"}
BY_CERTIFICATE = "clickhouse"
"""The user that authenticates to Kafka with a certificate. All others use a password (SCRAM)."""

OF_THE_IMAGE = ("clickhouse-connect", "matplotlib", "orjson", "psycopg2-binary")
"""Packages that Apache's image of Superset does not contain."""

OF_THE_PLACE = (
    *("path", "listen_host", "http_port", "tcp_port", "logger", "users_config"),
    *("user_directories", "max_server_memory_usage", "mark_cache_size", "index_mark_cache_size"),
    *("uncompressed_cache_size", "background_pool_size", "background_schedule_pool_size"),
    *("background_message_broker_schedule_pool_size", "background_common_pool_size"),
    *("background_fetches_pool_size", "background_move_pool_size", "merge_tree"),
    *("storage_configuration", "backups"),
)
"""Parts of config.xml that depend on the operator or on the size of a pod."""

MIB = 1 << 20
OF_A_POD = {
    # A server gives each shard a part per flush and table. ClickHouse merges about one part per
    # second and table without delay, and several servers write to a shard (docs/decisions/0029).
    "default/stream_flush_interval_ms": 5000,
    "default/stream_poll_timeout_ms": 500,
    "default/max_threads": 4,
    "default/max_memory_usage": 3072 * MIB,
    "default/max_bytes_before_external_group_by": 1024 * MIB,
    "default/max_bytes_before_external_sort": 1024 * MIB,
    "analyst/max_threads": 4,
    "analyst/max_memory_usage": 2048 * MIB,
    "analyst/max_bytes_before_external_group_by": 512 * MIB,
    "analyst/max_bytes_before_external_sort": 512 * MIB,
    "analyst/constraints/max_memory_usage/max": 2048 * MIB,
    "reader/max_memory_usage_for_user": 3072 * MIB,
    "reader/constraints/max_threads/max": 4,
}
"""Values of profiles in users.xml for a pod with 8 GiB (infra/k8s/base/clickhouse.yaml).

Those of the file are for a machine of two cores and 4 GiB that ClickHouse shares.
"""

DIVIDING = {
    "use_strict_insert_block_limits": 1,
    "max_insert_block_size_bytes": 64 * MIB,
}
"""Settings of the profile `default` that only a pod has.

What a Kafka table collects in 5 s has no limit in bytes, and the views need nine times its size. So
ClickHouse divides it before the views (docs/decisions/0032).
"""

ROWS_PER_FLUSH = 262_144
"""Rows that a Kafka table collects before it inserts them, even if the flush interval is not over.

ClickHouse's default of 65,409 would flush twice a second at 130,000 lines per second. A record has
534 bytes in Kafka, so this many take 140 MB.
"""


def manifests() -> dict[str, str]:
    """Return each file's text by its name."""
    return {
        "topics.yaml": HEADER.format(source="infra/kafka and schemas") + _documents(topics()),
        "users.yaml": HEADER.format(source="infra/kafka and schemas") + _documents(users()),
        "clickhouse.yaml": HEADER.format(source="infra/clickhouse") + _documents([configuration()]),
    }


def requirements() -> str:
    """Return the missing packages and their dependencies, with versions and hashes of uv.lock."""
    lock = tomllib.loads((superset.CONFIG / "uv.lock").read_text())
    packages = {each["name"]: each for each in lock["package"]}
    wanted: set[str] = set()
    left = [*OF_THE_IMAGE]
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += [each["name"] for each in packages[name].get("dependencies", ())]
    lines = [HEADER.format(source="infra/superset/uv.lock").rstrip()]
    for name in sorted(wanted):
        hashes = [f"    --hash={each['hash']}" for each in packages[name]["wheels"]]
        lines.append(" \\\n".join([f"{name}=={packages[name]['version']}", *hashes]))
    return "\n".join(lines) + "\n"


def topics() -> list[dict[str, Any]]:
    """Return a KafkaTopic for each topic. The number of replicas is the cluster's default."""
    return [
        {
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaTopic",
            "metadata": {"name": name.replace("_", "-"), "labels": LABELS},
            "spec": {"topicName": name, **topic},
        }
        for name, topic in kafka.wanted_topics().items()
    ]


def users() -> list[dict[str, Any]]:
    """Return a KafkaUser for each principal with its rights; the operator replaces `admin`."""
    return [
        {
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaUser",
            "metadata": {"name": name, "labels": LABELS},
            "spec": {
                "authentication": {"type": "tls" if name == BY_CERTIFICATE else "scram-sha-512"},
                "authorization": {
                    "type": "simple",
                    "acls": [acl for each in given for acl in _acls(each)],
                },
            },
        }
        for name, given in granted().items()
    ]


def _acls(given: dict[str, Any]) -> list[dict[str, Any]]:
    operations = [each.title() for each in given["may"]]
    resources: list[dict[str, str]] = [{"type": "cluster"}] if given.get("cluster") else []
    for kind in ("topic", "group"):
        for name in given.get(f"{kind}s", []):
            is_prefix = name.endswith("*") and name != "*"
            pattern = "prefix" if is_prefix else "literal"
            text = name.removesuffix("*") if is_prefix else name
            resources.append({"type": kind, "name": text, "patternType": pattern})
    return [{"resource": each, "operations": operations} for each in resources]


def configuration() -> dict[str, Any]:
    """Return a part of the ClickHouseInstallation: server files besides the operator's."""
    return {
        "apiVersion": "clickhouse.altinity.com/v1",
        "kind": "ClickHouseInstallation",
        "metadata": {"name": "stunwatch"},
        "spec": {
            "configuration": {
                "files": {
                    "config.d/stunwatch.xml": _text(_servers()),
                    "users.d/stunwatch.xml": _text(_users()),
                }
            }
        },
    }


def _servers() -> ElementTree.Element:
    root = _read("config.xml")
    for name in OF_THE_PLACE:
        for each in root.findall(name):
            root.remove(each)
    collection = root.find("named_collections/stunwatch_kafka")
    assert collection is not None
    for each in collection.findall("*"):
        if each.tag.startswith("kafka_sasl_"):
            collection.remove(each)
    ElementTree.SubElement(collection, "kafka_max_block_size").text = str(ROWS_PER_FLUSH)
    librdkafka = collection.find("kafka")
    assert librdkafka is not None
    for name in ("certificate", "key"):
        of_file = {"from_env": f"STUNWATCH_KAFKA_{name.upper()}_FILE"}
        ElementTree.SubElement(librdkafka, f"ssl_{name}_location", of_file)
    return root


def _users() -> ElementTree.Element:
    root = _read("users.xml")
    # `default` is the embedded server's own session. With the operator, it is the operator's user.
    users = root.find("users")
    assert users is not None
    users.remove(next(each for each in users if each.tag == "default"))
    admin = users.find("admin/grants")
    assert admin is not None
    for query in list(admin):
        if query.text and query.text.endswith("MergeTree"):
            _grant(admin, query.text.replace("ENGINE ON ", f"ENGINE ON {REPLICATED}"))
    for path, value in OF_A_POD.items():
        setting = root.find(f"profiles/{path}")
        assert setting is not None
        setting.text = str(value)
    profile = root.find("profiles/default")
    assert profile is not None
    for name, value in DIVIDING.items():
        ElementTree.SubElement(profile, name).text = str(value)
    # A server queries shards without a row limit; a constraint's minimum would replace that.
    for constraint in root.findall("profiles/*/constraints/*"):
        least, most = constraint.find("min"), constraint.find("max")
        if least is not None and most is not None:
            least.text = most.text
    # Distributed tables query all shards.
    _grant(admin, "GRANT TABLE ENGINE ON Distributed")
    _grant(admin, "GRANT REMOTE ON *.*")
    for grants in users.findall("*/grants"):
        for query in list(grants):
            words = (query.text or "").split()
            if words[:2] == ["GRANT", "INSERT"] and words[-1].endswith("_stored"):
                _grant(grants, f"{query.text}{SHARD}")
    # A view's definer applies only on the queried server; shards check the rights of the user.
    reader = users.find("reader/grants")
    assert reader is not None
    _grant(reader, "GRANT SELECT ON stunwatch.*")
    return root


def _grant(grants: ElementTree.Element, text: str) -> None:
    ElementTree.SubElement(grants, "query").text = text


def _read(name: str) -> ElementTree.Element:
    """Parse a file of infra/clickhouse without its comments."""
    return ElementTree.parse(clickhouse.CONFIG / name).getroot()  # noqa: S314 (our own file)


def _text(root: ElementTree.Element) -> str:
    ElementTree.indent(root, "    ")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes block style with indented lists, and without anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _block)


def _documents(documents: list[dict[str, Any]]) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=100)


def main() -> None:
    """Write the files."""
    for name, text in manifests().items():
        (FOLDER / name).write_text(text)
    (superset.CONFIG / "requirements.txt").write_text(requirements())


if __name__ == "__main__":
    main()
