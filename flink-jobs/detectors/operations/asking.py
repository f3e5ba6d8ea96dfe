"""The requester of an operation: the client from its ID, the user from a host's log.

The client that starts an operation creates its ID. vCenter's agent, hostd and the VM's own process
append a part when they pass it on. The formats are from published lines of hostd, vpxd and
vmware.log; lines in the same format are in tests/corpus.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.records import is_continuation

_ASKED = detector("operations").patterns["asked"]

_CLIENTS = (
    (re.compile(r"vim-cmd-"), "vim-cmd"),
    (re.compile(r"esxcli-"), "esxcli"),
    (re.compile(r"esxui-"), "the host client"),
    (re.compile(r"[^:]{1,150}-h5:\d"), "the vSphere Client"),
)

# [Originator@6876 sub=Vimsvc.TaskManager opID=… sid=52c1 user=vpxuser:LAB\\anna]
# [Originator@6876 sub="Vimsvc.TaskManager" opID="…" user="root"]
_USER = re.compile(r"""[ \[]user="?([^\]"]{1,200})""")
_VCENTER = re.compile(r"vpxuser(?::(?:<no user>|.*\\vpxd-extension-.*))?")


def client_of(op_id: str) -> str:
    """Return the client that created the ID; empty if the ID does not show it."""
    return next((client for pattern, client in _CLIENTS if pattern.match(op_id)), "")


def user_of(record: Mapping[str, Any]) -> str:
    """Return the user who requested the operation of a host's line; empty if it contains none.

    vCenter sends requests as `vpxuser`, followed by its own user. If that is missing or one of
    vCenter's services, the requester is vCenter itself.
    """
    if is_continuation(record) or not record.get("op_id") or not _ASKED.search(record["message"]):
        return ""
    found = _USER.search(record.get("head", ""))
    if found is None:
        return ""
    named = found[1].strip()
    return "vCenter" if _VCENTER.fullmatch(named) else named.removeprefix("vpxuser:")


def with_asker(detail: str, op_id: str, user: str = "") -> str:
    """Append the user and the client of a request, as far as known, to the detail of a cause.

    >>> with_asker("nightly", "vim-cmd-0c-91fe", "root")
    'nightly, asked for by root with vim-cmd'
    """
    client = client_of(op_id)
    asker = " ".join([*(["by", user] if user else []), *(["with", client] if client else [])])
    return ", ".join([*([detail] if detail else []), *([f"asked for {asker}"] if asker else [])])
