"""Optional dependencies: the extra `pipeline` of pyproject.toml.

`triage`, `anonymise` and `--help` work without it. A command that needs the extra imports its
packages inside functions. If an import fails, `stunwatch.cli` prints the text of `remedy`.
"""

from __future__ import annotations

from importlib.util import find_spec

PIPELINE = {
    "apprise": "apprise",
    "confluent_kafka": "confluent-kafka",
    "matplotlib": "matplotlib",
    "prometheus_client": "prometheus-client",
    "pyVmomi": "pyvmomi",
    "pyflink": "apache-flink",
    "supervisor": "supervisor",
}
"""The name of a package to install, by the name of its Python module."""

INSTALL = (
    "Install stunwatch with its extra `pipeline`, in a checkout by"
    " `pipx install --force '.[pipeline]'` or `uv tool install --force '.[pipeline]'`"
)


def remedy(error: ModuleNotFoundError) -> str | None:
    """Return how to install a module that was not found; None if it is not in the extra."""
    module = (error.name or "").partition(".")[0]
    if module not in PIPELINE:
        return None
    return f"This command needs {PIPELINE[module]}, which is not installed. {INSTALL}."


def missing() -> list[str]:
    """Return the packages of the extra that are not installed."""
    return [name for module, name in PIPELINE.items() if find_spec(module) is None]
