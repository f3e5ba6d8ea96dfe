"""The start of the local Kafka."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from stunwatch.local import kafka
from stunwatch.settings import load_settings


def test_a_cluster_id_never_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter([UUID(bytes=b"\xfb" + bytes(15)), UUID(bytes=b"\x01" * 16)])
    monkeypatch.setattr("uuid.uuid4", lambda: next(ids))
    assert kafka._new_cluster_id() == "AQEBAQEBAQEBAQEBAQEBAQ"


@pytest.mark.parametrize("secure", [False, True])
def test_only_with_tls_the_broker_has_the_second_compiler(tmp_path: Path, secure: bool) -> None:
    settings = replace(load_settings({}), home=tmp_path, secure=secure)
    settings.make_folders()
    # A first start would create it with Java.
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka/meta.properties").touch()
    assert ("-XX:TieredStopAtLevel=1" in kafka.launch(settings).command) is not secure
