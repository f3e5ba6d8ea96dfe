"""The host and the time of a file with outputs."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stunwatch.inventory.files import read

EXTENTS = """\
Volume Name  VMFS UUID                            Extent Number  Device Name       Partition
-----------  -----------------------------------  -------------  ----------------  ---------
gold         5f2a77c1-9be0d6d2-41aa-0025b5aa00b1              0  naa.60050768aa01          1
"""
HOSTNAME = "   Domain Name: lab.example\n   Fully Qualified Domain Name: {0}.lab.example\n"
HOSTNAME += "   Host Name: {0}\n"
WRITTEN_AT = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def write(path: Path, text: str, written_at: datetime = WRITTEN_AT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (written_at.timestamp(), written_at.timestamp()))
    return path


def hosts(*paths: Path, host: str | None = None) -> list[str]:
    return sorted(source.host for source in read(paths, host, None).sources)


def test_the_host_comes_from_the_option_the_file_or_a_neighbouring_file(tmp_path: Path) -> None:
    alone = write(tmp_path / "a/extents.txt", EXTENTS)
    assert hosts(alone, host="esx01") == ["esx01"]
    assert hosts(alone) == []
    assert "--host" in read([alone], None, None).problems[0].sentence
    both = write(tmp_path / "b/esx02.txt", HOSTNAME.format("esx02") + EXTENTS)
    assert hosts(both) == ["esx02.lab.example"]
    write(tmp_path / "c/name.txt", HOSTNAME.format("esx03"))
    write(tmp_path / "c/extents.txt", EXTENTS)
    assert hosts(tmp_path / "c") == ["esx03.lab.example"] * 2


def test_a_file_between_two_hosts_has_no_host(tmp_path: Path) -> None:
    write(tmp_path / "esx01.txt", HOSTNAME.format("esx01") + EXTENTS)
    write(tmp_path / "esx02.txt", HOSTNAME.format("esx02") + EXTENTS)
    write(tmp_path / "unnamed.txt", EXTENTS)
    reading = read([tmp_path], None, None)
    assert [source.host for source in reading.sources] == ["esx01.lab.example", "esx02.lab.example"]
    assert [Path(problem.path).name for problem in reading.problems] == ["unnamed.txt"]


def test_the_longer_of_two_names_is_the_hosts_name(tmp_path: Path) -> None:
    file = write(tmp_path / "esx01.txt", HOSTNAME.format("esx01") + EXTENTS)
    [source] = read([file], "esx01", None).sources
    assert (source.host, source.given_name) == ("esx01.lab.example", "esx01")
    [source] = read([file], "other", None).sources
    assert source.host == "other"


def test_the_time_is_the_modification_time_or_the_given_one(tmp_path: Path) -> None:
    file = write(tmp_path / "extents.txt", EXTENTS)
    assert read([file], "esx01", None).sources[0].observed_at == WRITTEN_AT
    at = datetime(2020, 1, 1, tzinfo=UTC)
    assert read([file], "esx01", at).sources[0].observed_at == at


def test_a_bundle_is_read_as_a_folder_and_as_an_archive(tmp_path: Path) -> None:
    name = "esx-esx04.lab.example-2024-05-06--07.08-1234567"
    commands = tmp_path / name / "commands"
    write(commands / "localcli_storage-vmfs-extent-list.txt", EXTENTS)
    write(commands / "localcli_storage-core-device-stats-get.txt", "naa.1\n  Reads: 5\n")
    write(tmp_path / name / "var/run/log/vmkernel.log", EXTENTS)
    [source] = read([tmp_path], None, None).sources
    assert source.host == "esx04.lab.example"
    assert [len(output.entries) for output in source.outputs] == [1]
    packed = tmp_path / "packed.tgz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(tmp_path / name, name)
    [source] = read([packed], None, None).sources
    assert (source.host, source.observed_at) == ("esx04.lab.example", WRITTEN_AT)
    zipped = Path(shutil.make_archive(str(tmp_path / "zipped"), "zip", tmp_path, name))
    [source] = read([zipped], None, None).sources
    assert source.host == "esx04.lab.example"


def test_the_bundles_that_vcenter_exports_are_read(tmp_path: Path) -> None:
    """A zip archive of one bundle per host; vm-support splits outputs of more than 1 MB."""
    rows = "".join(
        EXTENTS.splitlines(keepends=True)[2].replace("aa01", f"a{number:03}")
        for number in range(100)
    )
    text = "".join(EXTENTS.splitlines(keepends=True)[:2]) + rows
    for host in ("esx05", "esx06"):
        bundle = f"esx-{host}.lab.example-2024-05-06--07.08-1234567"
        for number in range(0, len(text), 1000):
            name = f"localcli_storage-vmfs-extent-list.txt.FRAG-{number // 1000:05}"
            write(tmp_path / "a" / bundle / "commands" / name, text[number : number + 1000])
        inner = tmp_path / "b" / f"{host}.lab.example-vm2024-5-06@07-08-09.tgz"
        inner.parent.mkdir(exist_ok=True)
        with tarfile.open(inner, "w:gz") as tar:
            tar.add(tmp_path / "a" / bundle, bundle)
    zipped = Path(shutil.make_archive(str(tmp_path / "support"), "zip", tmp_path / "b"))
    for path in (tmp_path / "a", tmp_path / "b", zipped):
        reading = read([path], None, None)
        assert reading.problems == []
        assert hosts(path) == ["esx05.lab.example", "esx06.lab.example"]
        for source in reading.sources:
            [output] = source.outputs
            assert len(output.entries) == 100
            assert source.observed_at == WRITTEN_AT


def test_missing_fragments_of_an_output_are_reported(tmp_path: Path) -> None:
    commands = tmp_path / "esx-esx07-2024-05-06--07.08-1/commands"
    name = "localcli_storage-vmfs-extent-list.txt.FRAG-{:05}"
    write(commands / name.format(0), EXTENTS)
    write(commands / name.format(2), EXTENTS.splitlines(keepends=True)[2])
    reading = read([tmp_path], None, None)
    assert [len(output.entries) for output in reading.sources[0].outputs] == [2]
    assert [problem.sentence for problem in reading.problems] == [
        "1 of its 3 fragments are missing; the others were read"
    ]


def test_outputs_in_an_archive_that_is_no_bundle_are_read(tmp_path: Path) -> None:
    write(tmp_path / "out/esx08.txt", HOSTNAME.format("esx08") + EXTENTS)
    zipped = Path(shutil.make_archive(str(tmp_path / "outputs"), "zip", tmp_path / "out"))
    assert hosts(zipped) == ["esx08.lab.example"]


def test_an_unusable_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    good = write(tmp_path / "good.txt", EXTENTS)
    prose = write(tmp_path / "prose.txt", "Dear all,\nthe LUN is called gold.\n")
    binary = tmp_path / "binary.txt"
    binary.write_bytes(bytes(range(256)) * 100)
    empty = write(tmp_path / "empty.txt", "")
    folder = tmp_path / "folder"
    folder.mkdir()
    cut = tmp_path / "cut.tgz"
    with tarfile.open(cut, "w:gz") as tar:
        member = tarfile.TarInfo("esx-esx05-2024-05-06--07.08-1/commands/big.txt")
        member.size = 1 << 20
        tar.addfile(member, io.BytesIO(os.urandom(1 << 20)))
    cut.write_bytes(cut.read_bytes()[: 1 << 19])
    missing = tmp_path / "missing.txt"
    reading = read([missing, prose, good, binary, empty, folder, cut], "esx01", None)
    assert [source.files for source in reading.sources] == [[str(good)]]
    told = {Path(problem.path).name for problem in reading.problems}
    assert told == {"missing.txt", "prose.txt", "binary.txt", "empty.txt", "folder", "cut.tgz"}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_an_output_that_powershell_saved_is_read(tmp_path: Path, encoding: str) -> None:
    """`plink esx01 esxcli … > esx01.txt` writes UTF-16, `Out-File -Encoding utf8` a mark."""
    path = tmp_path / "esx01.txt"
    text = f"\ufeff{EXTENTS}{HOSTNAME.format('esx01')}".replace("\n", "\r\n")
    path.write_bytes(text.encode(encoding))
    [source] = read([path], None, None).sources
    assert source.host == "esx01.lab.example"
    assert {output.command: len(output.entries) for output in source.outputs} == {
        "system hostname get": 1,
        "vmfs extent list": 1,
    }
