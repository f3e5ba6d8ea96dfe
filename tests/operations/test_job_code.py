"""The live job's code is a copy that changes only by an upgrade, and can be rolled back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch.folders import PACKAGE
from stunwatch.local import job_code
from stunwatch.settings import Settings, load_settings


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkout" / "stunwatch"
    for name in job_code.PACKAGES:
        shutil.copytree(PACKAGE / name, folder / name, ignore=shutil.ignore_patterns("cases"))
    shutil.copy(PACKAGE / "__init__.py", folder)
    monkeypatch.setattr(job_code, "PACKAGE", folder)
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = replace(load_settings({}), home=tmp_path / "home")
    made.make_folders()
    return made


def change(checkout: Path) -> None:
    with (checkout / "ingest/records.py").open("a") as file:
        file.write("# changed\n")


def test_without_a_copy_there_is_nothing_to_roll_back_to(settings: Settings) -> None:
    assert job_code.current(settings) is None
    assert not job_code.go_back(settings)


def test_the_copy_contains_everything_that_the_job_imports(
    settings: Settings, checkout: Path
) -> None:
    copy = job_code.take(settings, on_trial=False)
    shutil.rmtree(checkout)
    script = (
        "import stunwatch.engine.tracking, stunwatch.jobs.detect;"
        " import stunwatch.ingest.records as records; print(records.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=settings.home,
        env={"PYTHONPATH": job_code.python_path(copy)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(copy / "stunwatch/ingest/records.py")


def test_a_version_on_trial_is_kept_or_rolled_back(settings: Settings, checkout: Path) -> None:
    old = job_code.take(settings, on_trial=False)
    change(checkout)
    new = job_code.take(settings, on_trial=True)
    assert job_code.current(settings) == new != old
    assert job_code.previous(settings) == old

    assert job_code.go_back(settings)
    assert job_code.current(settings) == old
    assert not new.exists()

    assert job_code.take(settings, on_trial=True) == new
    job_code.keep(settings)
    assert job_code.current(settings) == new
    assert not old.exists()
    assert not job_code.go_back(settings)


def test_unchanged_code_starts_no_trial(settings: Settings, checkout: Path) -> None:
    copy = job_code.take(settings, on_trial=False)
    assert job_code.take(settings, on_trial=True) == copy
    assert job_code.previous(settings) is None
