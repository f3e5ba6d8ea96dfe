"""Versions, topics and ports are defined in one place, and everything else matches."""

from __future__ import annotations

import re
import tomllib
from typing import Any
from xml.etree import ElementTree

import pytest

from stunwatch.local import flink, kafka, superset
from stunwatch.settings import ROOT, versions

MAVEN = {"": "http://maven.apache.org/POM/4.0.0"}


def maven_versions(folder: str) -> dict[str, str]:
    found = ElementTree.parse(ROOT / folder / "pom.xml").iterfind(".//dependency", MAVEN)
    return {
        each.findtext("artifactId", "", MAVEN): each.findtext("version", "", MAVEN)
        for each in found
    }


def test_kafkas_jars_match_versions_toml() -> None:
    wanted = versions()["kafka"]
    assert maven_versions("infra/kafka") == {
        f"kafka_{wanted['scala']}": wanted["version"],
        "log4j-slf4j-impl": wanted["log4j_slf4j"],
    }


def test_flinks_jars_match_versions_toml() -> None:
    wanted = versions()["flink"]
    assert maven_versions("infra/flink") == {"flink-sql-connector-kafka": wanted["kafka_connector"]}
    pom = (ROOT / "flink-jobs/functions/pom.xml").read_text()
    assert f"<flink.version>{wanted['version']}</flink.version>" in pom


@pytest.mark.parametrize("component", [kafka.CONFIG, flink.CONFIG])
def test_every_jar_has_a_pinned_checksum(component: Any) -> None:
    pinned = (component / "jars.sha256").read_text()
    assert re.fullmatch(r"([0-9a-f]{64}  [\w.-]+\.jar\n)+", pinned)
    for name, version in maven_versions(str(component.relative_to(ROOT))).items():
        assert f"  {name}-{version}.jar\n" in pinned


def test_the_simulated_vcenter_matches_versions_toml() -> None:
    pinned = (ROOT / "tools/vcsim/go.mod").read_text()
    assert f"github.com/vmware/govmomi v{versions()['vcsim']['govmomi']}\n" in pinned


def test_promtool_matches_versions_toml() -> None:
    # The module of Prometheus 3.13.5 is v0.313.5.
    major, minor, patch = versions()["prometheus"]["version"].split(".")
    pinned = (ROOT / "tools/promtool/go.mod").read_text()
    module = "github.com/prometheus/prometheus"
    assert f"{module} v0.{major}{minor.zfill(2)}.{patch} // indirect\n" in pinned
    assert f"tool {module}/cmd/promtool\n" in pinned
    assert versions()["prometheus"]["image"].endswith(f":v{versions()['prometheus']['version']}")


def test_kustomize_matches_versions_toml() -> None:
    pinned = (ROOT / "tools/kustomize/go.mod").read_text()
    module = "sigs.k8s.io/kustomize/kustomize/v5"
    assert f"{module} v{versions()['kustomize']['version']} // indirect\n" in pinned
    assert f"tool {module}\n" in pinned


def test_pyproject_matches_versions_toml() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pipeline = project["optional-dependencies"]["pipeline"]
    assert f"apache-flink=={versions()['flink']['version']}" in pipeline
    assert f"supervisor=={versions()['supervisor']['version']}" in pipeline
    uv = re.search(r"UV_VERSION := (\S+)", (ROOT / "Makefile").read_text())
    assert uv is not None
    assert f"uv=={uv[1]}" in pipeline
    major, minor = versions()["python_newest"].split(".")
    above = f"{major}.{int(minor) + 1}"
    assert project["requires-python"] == f">={versions()['python']},<{above}"


def test_versions_match_their_images() -> None:
    wanted = versions()
    for component in ("kafka", "fluent_bit", "superset", "flink"):
        assert wanted[component]["image"].endswith(f":{wanted[component]['version']}")
    package = wanted["clickhouse"]["package_version"]
    assert package.startswith(wanted["clickhouse"]["image"].partition(":")[2] + ".")


def test_the_flink_image_has_the_same_python_and_uv() -> None:
    dockerfile = (flink.CONFIG / "Dockerfile").read_text()
    assert f"FROM python:{versions()['python']}-" in dockerfile
    uv = re.search(r"UV_VERSION := (\S+)", (ROOT / "Makefile").read_text())
    assert uv is not None
    assert f"uv=={uv[1]} " in dockerfile
    version = versions()["flink"]["version"]
    assert f"FROM flink:{version}-java{versions()['java']} " in dockerfile
    assert f"-{version}.jar" in dockerfile


def test_the_superset_image_adds_the_drivers_of_the_lock_file() -> None:
    dockerfile = (superset.CONFIG / "Dockerfile").read_text()
    assert f"FROM {versions()['superset']['base_image']}\n" in dockerfile
    assert versions()["superset"]["base_image"].endswith(f":{versions()['superset']['version']}")
    packages = tomllib.loads((superset.CONFIG / "uv.lock").read_text())["package"]
    locked = {each["name"]: each["version"] for each in packages if "version" in each}
    requirements = (superset.CONFIG / "requirements.txt").read_text()
    added = re.findall(r"^([\w-]+)==(\S+)", requirements, re.MULTILINE)
    assert {"clickhouse-connect", "psycopg2-binary"} <= {name for name, _ in added}
    assert all(locked[name] == version for name, version in added)


def test_the_flink_image_has_the_same_java() -> None:
    dockerfile = (flink.CONFIG / "Dockerfile").read_text()
    assert f"openjdk-{versions()['java']}-jre" in dockerfile


def test_supersets_lock_file_matches_versions_toml() -> None:
    wanted = versions()["superset"]["version"]
    project = tomllib.loads((superset.CONFIG / "pyproject.toml").read_text())["project"]
    assert f"apache-superset=={wanted}" in project["dependencies"]
    packages = tomllib.loads((superset.CONFIG / "uv.lock").read_text())["package"]
    locked = {each["name"]: each for each in packages}
    assert locked["apache-superset"]["version"] == wanted
    ours = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    [registry] = {each["source"].get("registry") for each in ours} - {None}
    others = [each["source"] for each in packages if each["source"] != {"registry": registry}]
    assert others == [{"virtual": "."}]


@pytest.mark.parametrize("name", kafka.wanted_topics())
def test_a_topic_uses_arrival_time_and_accepts_long_lines(name: str) -> None:
    config = kafka.wanted_topics()[name]["config"]
    assert config["message.timestamp.type"] == "LogAppendTime"
    assert int(config["max.message.bytes"]) >= 2 << 20
