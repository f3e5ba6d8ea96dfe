"""Derives datastore and VM from the path of a vmware.log, for replay, Fluent Bit and vCenter.

ingest/lua/files.lua has the same rule. tests/ingest/vm_paths.yaml has the test cases of both.
"""

from __future__ import annotations

from pathlib import PurePosixPath

_VOLUMES = "/vmfs/volumes/"
TAILED_BY_DEFAULT = "/vmfs/volumes/*/*/vmware*.log"


def vm_of(path: str, tailed: str = "") -> tuple[str, str] | None:
    """Return (datastore, vm) of a path, also in an archive; None if the path does not show them.

    Below `vmfs/volumes/` the first folder is the datastore and the last is the VM. Any other path
    must match one of the globs in `tailed` (separated by commas, as Fluent Bit tails them): its
    last two folders are datastore and VM.
    """
    path = "/" + path.replace("!", "/").lstrip("/")
    _, volumes, below = path.rpartition(_VOLUMES)
    if volumes:
        datastore, *others = [part for part in below.split("/") if part] or [""]
        return (datastore, others[-2]) if len(others) > 1 else None
    place = PurePosixPath(path)
    globs = (glob.strip() for glob in tailed.split(","))
    # match() counts folders from the right if the glob does not start with a slash.
    if any(glob.startswith("/") and place.match(f"/{glob.lstrip('/')}") for glob in globs if glob):
        folders = place.parts[1:-1]
        return (folders[-2], folders[-1]) if len(folders) > 1 else None
    return None
