"""Build overlays of infra/k8s with the real kustomize, compiled from a Go module."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from stunwatch.local.fetch import GO_BUILD_QUICKLY
from stunwatch.settings import ROOT, load_settings

K8S = ROOT / "infra" / "k8s"
OVERLAYS = sorted(each.name for each in (K8S / "overlays").iterdir())
MODULE = ROOT / "tools" / "kustomize"

Manifest = dict[str, Any]


@cache
def overlay(name: str) -> list[Manifest]:
    """Return every manifest of an overlay."""
    words = [str(_kustomize()), "build", str(K8S / "overlays" / name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@cache
def _kustomize() -> Path:
    binary = load_settings({}).build / "kustomize"
    pinned = MODULE / "go.sum"
    if not binary.exists() or binary.stat().st_mtime < pinned.stat().st_mtime:
        main = "sigs.k8s.io/kustomize/kustomize/v5"
        subprocess.run([*GO_BUILD_QUICKLY, "-o", binary, main], cwd=MODULE, check=True)
        binary.touch()
    return binary


def pods(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Return every pod that the manifests create: kind/name → {"labels": …, "spec": …}."""
    found = {}
    for each in manifests:
        name = f"{each['kind']}/{each['metadata']['name']}"
        if each["kind"] in {"Deployment", "StatefulSet", "Job"}:
            found[name] = _pod(each["spec"]["template"])
        elif each["kind"] == "FlinkDeployment":
            found[name] = _pod(each["spec"]["podTemplate"])
        elif each["kind"].startswith("ClickHouse"):
            [template] = each["spec"]["templates"]["podTemplates"]
            found[name] = _pod(template)
    return found


def _pod(template: Manifest) -> Manifest:
    return {"labels": template.get("metadata", {}).get("labels", {}), "spec": template["spec"]}
