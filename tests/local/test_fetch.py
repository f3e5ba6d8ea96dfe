"""Downloads match their checksums, and are complete or absent."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from stunwatch.errors import UserError
from stunwatch.local import clickhouse, fetch, kafka
from stunwatch.local.fetch import Fetch
from stunwatch.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings({}), build=tmp_path / "build", home=tmp_path / "home")


def test_a_jar_with_another_checksum_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_mirror(command: list[str], **_: object) -> None:
        for line in (kafka.CONFIG / "jars.sha256").read_text().splitlines():
            (tmp_path / line.split()[1]).write_bytes(b"not the jar")

    monkeypatch.setattr(fetch, "_run", broken_mirror)
    with pytest.raises(UserError, match=r"HdrHistogram.*\.jar does not match its hash in kafka/"):
        fetch.maven_jars(kafka.CONFIG, tmp_path)


def test_an_archive_with_another_checksum_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_mirror(command: list[str], **_: object) -> None:
        with tarfile.open(tmp_path / "library.tgz", "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("package/libchdb.so"), io.BytesIO())

    monkeypatch.setattr(fetch, "_run", broken_mirror)
    with pytest.raises(UserError, match=r"does not match its hash in versions\.toml"):
        fetch.clickhouse_library(tmp_path)
    assert not (tmp_path / "libchdb.so").exists()


def test_an_unsupported_processor_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UserError, match=r"not available for linux-riscv64\. Install ClickHouse"):
        clickhouse.package()


@pytest.mark.integration
def test_an_interrupted_download_is_removed_by_the_next(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = settings.build / "thing"
    breaks = True

    def make(folder: Path) -> None:
        (folder / "half").touch()
        if breaks:
            raise UserError("the line went dead")

    thing = Fetch("a thing", "mvn", 1, place.is_dir, make, lambda folder: folder.rename(place))
    monkeypatch.setattr(fetch, "fetches", lambda _: [thing])
    monkeypatch.setattr(fetch, "link_flink", lambda _: None)
    with pytest.raises(UserError, match="the line went dead"):
        fetch.ensure(settings, Console(quiet=True))
    assert not place.exists()
    breaks = False
    fetch.ensure(settings, Console(quiet=True))
    assert [each.name for each in place.iterdir()] == ["half"]
    assert {each.name for each in settings.build.iterdir() if each.suffix != ".lock"} == {"thing"}


def test_an_older_connector_is_removed_from_the_class_path(tmp_path: Path) -> None:
    fresh, place = tmp_path / "fresh", tmp_path / "lib"
    fresh.mkdir()
    place.mkdir()
    (fresh / "connector-2.jar").touch()
    (place / "connector-1.jar").touch()
    (place / "other.jar").touch()
    fetch._replace_jars(fresh, place, "connector-*.jar")
    assert sorted(each.name for each in place.iterdir()) == ["connector-2.jar", "other.jar"]


def test_the_error_of_a_failed_tool_contains_its_output(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"sh failed: error: no such host\. For the whole output, run: sh"
    ):
        fetch._run(["sh", "-c", "echo 'error: no such host'; exit 3"])
