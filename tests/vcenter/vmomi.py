"""Recorded API answers as YAML. `_: vim.host.ScsiDisk` turns a mapping into that object of the API.

A managed object is given by type and id: `{_: vim.HostSystem, id: host-21}`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pyVmomi import VmomiSupport


def load(path: Path) -> Any:
    return _made(yaml.safe_load(path.read_text()))


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return [_made(each) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _made(each) for name, each in value.items() if name != "_"}
    if "_" not in value:
        return fields
    kind = VmomiSupport.GetVmodlType(value["_"])
    if issubclass(kind, VmomiSupport.ManagedObject):
        return kind(fields["id"])
    return kind(**fields)
