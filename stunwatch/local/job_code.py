"""A copy of the live job's code, so that changes of the checkout do not affect a running job.

`up` creates the copy when it starts the pipeline, `upgrade` when the pipeline runs. The copies are
in `home`/flink/code, in folders named by a hash of their content. `current` links to the copy that
the keeper submits. During the trial of an upgrade, `previous` links to the copy before it. Without
a copy (in a container), the job runs from the keeper's own code.
"""

from __future__ import annotations

import hashlib
import shutil
import sysconfig
from pathlib import Path

from stunwatch.folders import PACKAGE
from stunwatch.settings import Settings

PACKAGES = ("detectors", "engine", "incidents", "ingest", "jobs")
"""Subpackages of `stunwatch` that the job imports."""

UNUSED = {"cases", "vcenter"}
"""Folders of these packages that the job does not need."""

SUFFIXES = {".py", ".sql", ".yaml"}


def current(settings: Settings) -> Path | None:
    """Return the copy to submit, None if there is none."""
    return _target(_code(settings) / "current")


def previous(settings: Settings) -> Path | None:
    """Return the copy before the one on trial, None if none is on trial."""
    return _target(_code(settings) / "previous")


def python_path(code: Path) -> str:
    """Return the PYTHONPATH that makes this copy importable, and the packages that it uses.

    The Python inside Flink's JVM knows no virtual environment.
    """
    packages = sysconfig.get_paths()
    return ":".join(dict.fromkeys([str(code), packages["purelib"], packages["platlib"]]))


def take(settings: Settings, *, on_trial: bool) -> Path:
    """Copy the checkout's code and make it current. On trial, the previous copy is kept."""
    files = [PACKAGE / "__init__.py"]
    files += [
        path
        for package in PACKAGES
        for path in sorted((PACKAGE / package).rglob("*"))
        if path.suffix in SUFFIXES and not UNUSED & {*path.relative_to(PACKAGE).parts}
    ]
    content = hashlib.sha256()
    for path in files:
        content.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes())
    copy = _code(settings) / content.hexdigest()[:16]
    if not copy.exists():
        draft = copy.with_suffix(".partial")
        shutil.rmtree(draft, ignore_errors=True)
        for path in files:
            place = draft / PACKAGE.name / path.relative_to(PACKAGE)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
        draft.rename(copy)
    before = current(settings)
    if on_trial and before and before != copy:
        _link(_code(settings) / "previous", before)
    _link(_code(settings) / "current", copy)
    if not on_trial:
        keep(settings)
    return copy


def keep(settings: Settings) -> None:
    """End the trial: keep the current copy and delete all others."""
    folder, copy = _code(settings), current(settings)
    (folder / "previous").unlink(missing_ok=True)
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink() and each != copy:
            shutil.rmtree(each, ignore_errors=True)


def go_back(settings: Settings) -> bool:
    """Make the copy before the one on trial current; return False if none is on trial."""
    before = previous(settings)
    if before is None:
        return False
    _link(_code(settings) / "current", before)
    keep(settings)
    return True


def _code(settings: Settings) -> Path:
    return settings.home / "flink" / "code"


def _target(link: Path) -> Path | None:
    return link.parent / link.readlink() if link.is_symlink() else None


def _link(link: Path, copy: Path) -> None:
    draft = link.with_suffix(".partial")
    draft.unlink(missing_ok=True)
    draft.symlink_to(copy.name)
    draft.replace(link)
