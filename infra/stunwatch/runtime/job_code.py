"""The live job's code: a copy of it, so that a checkout that changes changes no running job.

`up` takes the copy where it starts the pipeline, `upgrade` where the pipeline runs. Under
`home`/flink/code the folders are named by their content; `current` links to what the keeper
submits, and while an upgrade is on trial `previous` links to what it goes back to. Without a copy
(in a container) the job runs from where the keeper's own code is.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from stunwatch.settings import ROOT, Settings

FOLDERS = ("flink-jobs", "ingest")
"""What the job imports; its paths for Python are these and the folder that they are in."""

SUFFIXES = {".py", ".sql", ".yaml"}


def current(settings: Settings) -> Path | None:
    """The copy to submit, if there is one."""
    return _target(_code(settings) / "current")


def previous(settings: Settings) -> Path | None:
    """While a new version is on trial, the copy of the one before it."""
    return _target(_code(settings) / "previous")


def python_path(code: Path) -> str:
    """What PYTHONPATH must begin with for this copy to be imported."""
    return f"{code / FOLDERS[0]}:{code}"


def take(settings: Settings, *, on_trial: bool) -> Path:
    """Copy the checkout's code and make it the current one; on trial the one before it is kept."""
    files = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SUFFIXES and "cases" not in path.parts
    ]
    content = hashlib.sha256()
    for path in files:
        content.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    copy = _code(settings) / content.hexdigest()[:16]
    if not copy.exists():
        draft = copy.with_suffix(".partial")
        shutil.rmtree(draft, ignore_errors=True)
        for path in files:
            place = draft / path.relative_to(ROOT)
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
    """End the trial: the current copy stays, all others go."""
    folder, copy = _code(settings), current(settings)
    (folder / "previous").unlink(missing_ok=True)
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink() and each != copy:
            shutil.rmtree(each, ignore_errors=True)


def go_back(settings: Settings) -> bool:
    """Make the copy before the one on trial the current one; False where none is on trial."""
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
