"""What hosts and VMs are called elsewhere: in log lines, and on datastores."""

from __future__ import annotations

import re

from ingest.records import fuller_host

# What many hosts call themselves before they are given a name.
_NO_NAME = re.compile(r"localhost(?:\..*)?", re.IGNORECASE)


def host_name(in_vcenter: str, own_name: str | None, own_domain: str | None) -> str:
    """The name that the host's own log lines carry, in its fullest form.

    vCenter may know the host by an address, or by a name that the host never says.
    """
    if not own_name or _NO_NAME.fullmatch(own_name):
        return in_vcenter
    own = f"{own_name}.{own_domain}" if own_domain and "." not in own_name else own_name
    return fuller_host(own, in_vcenter)


def folder_in(datastore_path: str) -> str:
    """What every other source calls a VM: `[san-01] app01/app01.vmx` → app01."""
    return datastore_path.rpartition("] ")[2].rpartition("/")[0].rpartition("/")[2]


def volume_path(datastore_path: str) -> tuple[str, str]:
    """`[san-01] app01/app01.vmx` → (san-01, /vmfs/volumes/san-01/app01/app01.vmx)."""
    datastore, _, path = datastore_path.removeprefix("[").partition("] ")
    return datastore, f"/vmfs/volumes/{datastore}/{path}"
