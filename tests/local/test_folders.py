"""Locations of files and data, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stunwatch import cli, folders
from stunwatch.errors import UserError


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    package = tmp_path / "checkout" / "stunwatch"
    package.mkdir(parents=True)
    return package


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    package = tmp_path / "site-packages" / "stunwatch"
    (package / "root").mkdir(parents=True)
    return package


def test_a_checkout_contains_its_files_and_its_data(checkout: Path, tmp_path: Path) -> None:
    assert folders.root_of(checkout) == tmp_path / "checkout"
    assert folders.state_of(checkout) == tmp_path / "checkout"


def test_a_wheel_stores_data_in_the_users_data_folder(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/user")
    assert folders.root_of(wheel) == wheel / "root"
    assert folders.state_of(wheel) == Path("/data/of/user/stunwatch")


def test_dashboards_are_pulled_only_into_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "is_installed", lambda: True)
    done = CliRunner().invoke(cli.app, ["dashboards", "pull"])
    assert isinstance(done.exception, UserError)
    assert (
        str(done.exception)
        == "`dashboards pull` changes files of a checkout. Run it in a checkout."
    )
