"""Locations of the project's files and data, in a checkout and in an installed wheel.

A wheel contains `infra`, `schemas`, `sql`, the Java functions and `versions.toml` in
`stunwatch/root`, arranged as in a checkout (pyproject.toml lists them). One `ROOT` therefore serves
both.

In a checkout, `ingest` and `flink-jobs` contain five packages. Symbolic links in `stunwatch` give
them their import names, such as `stunwatch.ingest`. A wheel has folders instead of the links.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def is_installed(package: Path = PACKAGE) -> bool:
    """True if this copy of the package comes from a wheel, not from a checkout."""
    return (package / "root").is_dir()


def root_of(package: Path) -> Path:
    """Return the folder that contains `sql`, `infra` and the others."""
    return package / "root" if is_installed(package) else package.parent


def state_of(package: Path) -> Path:
    """Return the folder for data and downloads: the checkout, or the user's data folder."""
    if not is_installed(package):
        return root_of(package)
    from platformdirs import user_data_path  # noqa: PLC0415 (not needed in a checkout)

    return user_data_path("stunwatch")


ROOT = root_of(PACKAGE)
STATE = state_of(PACKAGE)
