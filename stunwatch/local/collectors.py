"""The vCenter collectors as components: one of each kind, if `up --collect` was used.

The environment of `up` selects the vCenter; the supervisor inherits it. A file has the credentials.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from stunwatch.errors import UserError
from stunwatch.local.component import Component, Launch
from stunwatch.local.passwords import write_secret
from stunwatch.settings import Settings

KINDS = ("vmlogs", "latency", "inventory")
"""Names as in `stunwatch collect`."""

TOLD_BY = (
    "STUNWATCH_VCENTER",
    "STUNWATCH_VCENTER_CREDENTIALS",
    "STUNWATCH_VCENTER_CA_FILE",
    "STUNWATCH_VCENTER_THUMBPRINT",
)
"""Variables copied to the supervisor's configuration, so that another vCenter changes the settings
and `up` restarts.
"""


def switch(settings: Settings) -> Path:
    """Return the path of the flag file; collectors run if the file exists."""
    return settings.home / "collecting"


def is_wanted(settings: Settings) -> bool:
    """True if `up` was called with --collect."""
    return switch(settings).exists()


def credentials_file(settings: Settings) -> Path:
    """Return the file with the credentials that `up` read from its environment.

    It has user and password, one line each, and mode 600.
    """
    return settings.secrets / "vcenter"


def require_vcenter(settings: Settings) -> None:
    """Check that vCenter and credentials are set; write credentials of the environment to a file.

    Raises:
        UserError: the environment lacks one of these.
    """
    from stunwatch.ingest.vcenter.session import (  # noqa: PLC0415 (in an extra)
        VCenterError,
        address_from,
        credentials_from,
    )

    try:
        address_from()
        credentials = credentials_from()
    except VCenterError as error:
        raise UserError(str(error)) from error
    if not os.environ.get("STUNWATCH_VCENTER_CREDENTIALS"):
        write_secret(credentials_file(settings), f"{credentials.user}\n{credentials.password}\n")


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment of the collectors, without the password."""
    if not is_wanted(settings):
        return {}
    told = {name: os.environ[name] for name in TOLD_BY if os.environ.get(name)}
    return {"STUNWATCH_VCENTER_CREDENTIALS": str(credentials_file(settings))} | told


def launch(settings: Settings, kind: str) -> Launch:
    """Return the launch of one collector."""
    return Launch([sys.executable, "-m", "stunwatch.cli", "collect", kind])


COMPONENTS = tuple(
    Component(
        f"collect-{kind}",
        after=("kafka",),
        launch=partial(launch, kind=kind),
        # The pipeline does not wait for an unreachable vCenter; the collector logs it.
        unhealthy_reason=lambda _: None,
        stop_seconds=15,
        is_wanted=is_wanted,
    )
    for kind in KINDS
)
