"""What asks a vCenter, as components: one of each kind, where `up --collect` said so.

Which vCenter, and who logs in, is in the environment of `up`, and with it the supervisor's.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from ingest.vcenter.session import VCenterError, address_from, credentials_from
from stunwatch.errors import UserError
from stunwatch.runtime.component import Component, Launch
from stunwatch.settings import Settings

KINDS = ("vmlogs", "latency", "inventory")
"""As `stunwatch collect` names them."""

TOLD_BY = (
    "STUNWATCH_VCENTER",
    "STUNWATCH_VCENTER_USER",
    "STUNWATCH_VCENTER_CREDENTIALS",
    "STUNWATCH_VCENTER_CA_FILE",
    "STUNWATCH_VCENTER_THUMBPRINT",
)
"""What the supervisor's configuration repeats, so that another vCenter is a change of settings. A
password is in no file."""


def switch(settings: Settings) -> Path:
    """The file that stands there while collectors run."""
    return settings.home / "collecting"


def is_wanted(settings: Settings) -> bool:
    """Tell whether `up` was asked for them."""
    return switch(settings).exists()


def require_vcenter() -> None:
    """Raises UserError where the environment does not say which vCenter, or who logs in."""
    try:
        address_from()
        credentials_from()
    except VCenterError as error:
        raise UserError(str(error)) from error


def environment(settings: Settings) -> dict[str, str]:
    """What collectors are told, but a password."""
    if not is_wanted(settings):
        return {}
    return {name: os.environ[name] for name in TOLD_BY if os.environ.get(name)}


def launch(settings: Settings, kind: str) -> Launch:
    """Run one."""
    return Launch([sys.executable, "-m", "stunwatch.cli", "collect", kind])


COMPONENTS = tuple(
    Component(
        f"collect-{kind}",
        after=("kafka",),
        launch=partial(launch, kind=kind),
        # A vCenter that is away is nothing that the pipeline waits for; its log tells.
        ailment=lambda _: None,
        stop_seconds=15,
        is_wanted=is_wanted,
    )
    for kind in KINDS
)
