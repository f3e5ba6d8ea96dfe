"""Replacements of Kafka and sample files, for tests of the command line."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stunwatch.cli import inventory, watch
from tests.test_conventions import ROOT

ESXCLI = ROOT / "tests/inventory/cases/esxi55_everything_of_a_host/input.txt"
LOG = next((ROOT / "stunwatch/demo/incident").rglob("vmware.log"))


def no_kafka(patched: pytest.MonkeyPatch) -> None:
    """Replace Kafka with a stub that accepts all messages and has no unread ones."""
    kafka = SimpleNamespace(ends=lambda _: {}, partitions=lambda _: [])
    shipper = SimpleNamespace(send=lambda *_: None, flush=lambda: None)
    for module in (inventory, watch):
        patched.setattr(module, "Kafka", lambda *_, **__: kafka)
    patched.setattr(inventory, "Shipper", lambda *_: shipper)
    patched.setattr(inventory, "wait_until_read", lambda *_: None)
    patched.setattr(inventory, "judge_replays", lambda *_: 2)
