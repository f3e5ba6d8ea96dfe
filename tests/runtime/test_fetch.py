"""What is fetched is pinned, whole, or not there at all."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from stunwatch.errors import UserError
from stunwatch.runtime import clickhouse, fetch, kafka
from stunwatch.runtime.fetch import Fetch
from stunwatch.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings({}), build=tmp_path / "build", home=tmp_path / "home")


def test_a_jar_that_differs_from_its_pin_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_mirror(command: list[str], **_: object) -> None:
        for line in (kafka.CONFIG / "jars.sha256").read_text().splitlines():
            (tmp_path / line.split()[1]).write_bytes(b"not the jar")

    monkeypatch.setattr(fetch, "_run", broken_mirror)
    with pytest.raises(UserError, match=r"HdrHistogram.*\.jar is not the file that kafka/"):
        fetch.maven_jars(kafka.CONFIG, tmp_path)


def test_an_archive_that_differs_from_its_pin_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_mirror(command: list[str], **_: object) -> None:
        with tarfile.open(tmp_path / "library.tgz", "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("package/libchdb.so"), io.BytesIO())

    monkeypatch.setattr(fetch, "_run", broken_mirror)
    with pytest.raises(UserError, match=r"is not the archive that versions\.toml pins"):
        fetch.clickhouse_library(tmp_path)
    assert not (tmp_path / "libchdb.so").exists()


def test_an_unknown_machine_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UserError, match="not published for linux-riscv64: install ClickHouse"):
        clickhouse.package()


def test_what_broke_off_leaves_nothing_and_is_swept_by_the_next(
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
    assert sorted(each.name for each in settings.build.iterdir()) == ["fetch.lock", "thing"]


def test_an_older_connector_leaves_the_class_path(tmp_path: Path) -> None:
    fresh, place = tmp_path / "fresh", tmp_path / "lib"
    fresh.mkdir()
    place.mkdir()
    (fresh / "connector-2.jar").touch()
    (place / "connector-1.jar").touch()
    (place / "other.jar").touch()
    fetch._replace_jars(fresh, place, "connector-*.jar")
    assert sorted(each.name for each in place.iterdir()) == ["connector-2.jar", "other.jar"]


def test_a_failing_tool_is_told_with_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"sh failed: error: no such host \(the whole answer: sh"):
        fetch._run(["sh", "-c", "echo 'error: no such host'; exit 3"])
