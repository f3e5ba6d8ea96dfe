"""The suspect of an incident in one word, for the column `suspect`."""

from __future__ import annotations

from stunwatch.incidents.grouping import Trouble


def suspect(trouble: Trouble) -> str:
    """`array`, `fabric`, `array_or_fabric`, `lun`, `host`, `vm`, `backup` or `unknown`.

    `backup`: most stuns are of snapshots, and no measurement or log shows slow storage. If the
    storage is slow, it is the suspect, also during a backup, as in the verdict. `unknown`: stuns
    of other causes without slow storage.
    """
    if trouble.scope != "device":
        return trouble.scope
    stuns = [each for each in trouble.signals if each.kind == "stun"]
    if trouble.is_slow or not stuns:
        return "lun"
    snapshots = sum(each.detail.startswith("snapshot_") for each in stuns)
    return "backup" if snapshots * 2 > len(stuns) else "unknown"
