"""All downloads and build requirements are pinned and verified."""

from __future__ import annotations

import re
import tomllib
from xml.etree import ElementTree

import pytest

from stunwatch.settings import ROOT
from tools import manifests

MAVEN = "{http://maven.apache.org/POM/4.0.0}"
DOCKERFILES = sorted(ROOT.glob("infra/*/Dockerfile"))
POMS = [*ROOT.glob("infra/*/pom.xml"), *ROOT.glob("flink-jobs/*/pom.xml")]


def test_there_is_a_security_policy() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert "Report a vulnerability" in text
    assert "docs/security.md" in text


def test_the_image_verifies_flinks_jars_like_local_mode() -> None:
    text = (ROOT / "infra/flink/Dockerfile").read_text()
    copied, checked, built = (
        text.index(each)
        for each in ("copy-dependencies", "sha256sum --check --strict", "stunwatch-prefilter.jar")
    )
    assert copied < checked < built
    assert "COPY infra/flink/pom.xml infra/flink/jars.sha256" in text


def test_supersets_image_installs_the_packages_of_its_lock_by_hash() -> None:
    assert (ROOT / "infra/superset/requirements.txt").read_text() == manifests.requirements()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda each: each.parent.name)
def test_an_image_installs_only_packages_with_a_version_or_hash(dockerfile: object) -> None:
    text = dockerfile.read_text()  # type: ignore[attr-defined]
    commands = " ".join(re.split(r"\\\\\n", text)).replace("\\\n", " ")
    for command in re.findall(r"(?:uv )?pip install [^&\n]+", commands):
        named = [
            each for each in command.split()[2:] if re.match(r"[a-z]", each) and "/" not in each
        ]
        pinned = all("==" in each for each in named if each not in {"install"})
        assert "--require-hashes" in command or (named and pinned), command
    for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert re.search(r":\S*\d", image), f"{image} names no version"
        assert not image.endswith(":latest")


def test_every_build_requirement_has_one_version() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert required
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", each) for each in required)


@pytest.mark.parametrize("pom", POMS, ids=lambda each: str(each.parent.name))
def test_every_maven_plugin_and_dependency_has_one_version(pom: object) -> None:
    root = ElementTree.parse(str(pom)).getroot()
    for kind in ("plugin", "dependency"):
        for each in root.iter(f"{MAVEN}{kind}"):
            version = each.findtext(f"{MAVEN}version", "")
            assert re.fullmatch(r"\d[\w.-]*|\$\{[\w.]+\}", version), version
