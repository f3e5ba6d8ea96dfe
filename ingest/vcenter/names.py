"""Translates vCenter's names to the names of hosts and VMs in log lines and on datastores."""

from __future__ import annotations

import re

from stunwatch.ingest.records import fuller_host

# The name of a host before it is configured.
_NO_NAME = re.compile(r"localhost(?:\..*)?", re.IGNORECASE)


def host_name(in_vcenter: str, own_name: str | None, own_domain: str | None) -> str:
    """Return the host's name as its own log lines spell it, in its longest form.

    vCenter may list the host by an address, or by a name that does not occur in its logs.
    """
    if not own_name or _NO_NAME.fullmatch(own_name):
        return in_vcenter
    own = f"{own_name}.{own_domain}" if own_domain and "." not in own_name else own_name
    return fuller_host(own, in_vcenter)


def folder_in(datastore_path: str) -> str:
    """Return a VM's name in all other sources: `[san-01] app01/app01.vmx` → app01."""
    return datastore_path.rpartition("] ")[2].rpartition("/")[0].rpartition("/")[2]


def volume_path(datastore_path: str) -> tuple[str, str]:
    """`[san-01] app01/app01.vmx` → (san-01, /vmfs/volumes/san-01/app01/app01.vmx)."""
    datastore, _, path = datastore_path.removeprefix("[").partition("] ")
    return datastore, f"/vmfs/volumes/{datastore}/{path}"
