"""The start of the local Kafka."""

from __future__ import annotations

from uuid import UUID

import pytest

from stunwatch.local import kafka


def test_a_cluster_id_never_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter([UUID(bytes=b"\xfb" + bytes(15)), UUID(bytes=b"\x01" * 16)])
    monkeypatch.setattr("uuid.uuid4", lambda: next(ids))
    assert kafka._new_cluster_id() == "AQEBAQEBAQEBAQEBAQEBAQ"
