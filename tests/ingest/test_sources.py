"""Plans of a replay: which files are read, their hosts and VMs, and their order."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from trees import esxtop, hostd, tar, tgz, vmkernel, vmware_log, write, zipped, zst

from stunwatch.ingest.records import generation_of
from stunwatch.ingest.replay import Options, Plan, SourceFile, plan, records


def planned(*paths: Path, **options: object) -> list[SourceFile]:
    with plan(paths, Options(**options)) as what:  # type: ignore[arg-type]
        assert what.problems == []
        return what.files


def complaints(*paths: Path) -> list[str]:
    with plan(paths) as what:
        return [f"{Path(problem.path).name}: {problem.sentence}" for problem in what.problems]


def names(what: list[SourceFile], root: Path) -> list[str]:
    return [file.name.removeprefix(f"{root}/") for file in what]


# Kinds


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (vmware_log(), "vmware_log"),
        (b"Mar 04 05:06:07.089: vcpu-0| CPT: monitor ACKing mode 2\n", "vmware_log"),
        (vmkernel(), "syslog"),
        (hostd(), "syslog"),
        (b"<14>2024-05-06T07:08:09Z esx01 vobd: x\n", "syslog"),
        (b"Mar 04 05:06:07 esx35-a vmkernel: 1:02:03:04.567 cpu0:1)x", "syslog"),
        (esxtop(), "esxtop"),
        (b"\xef\xbb\xbf" + esxtop().replace(b'"', b""), "esxtop"),
        (b"half a line\n" + b"   of a dump\n" * 20 + hostd(), "syslog"),
        (b"\0" * 4096 + b"\n" + vmkernel(), "syslog"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zst], ids=["plain", "gz", "zst"])
def test_the_kind_is_found_by_the_content(tmp_path: Path, content: bytes, kind: str, pack) -> None:  # type: ignore[no-untyped-def]
    path = write(tmp_path / "anything", pack(content))
    (file,) = planned(path, vm="web01")
    assert file.kind == kind
    assert file.size_bytes == path.stat().st_size


def test_a_misleading_name_changes_nothing(tmp_path: Path) -> None:
    (file,) = planned(write(tmp_path / "vmkernel.log", vmware_log()), vm="web01")
    assert file.kind == "vmware_log"
    (file,) = planned(write(tmp_path / "picture.png", vmkernel()))
    assert file.kind == "syslog"


def test_a_text_that_quotes_a_log_is_not_a_log(tmp_path: Path) -> None:
    write(tmp_path / "a" / "README.md", b"Look at this:\n" * 20 + vmkernel(count=3))
    write(tmp_path / "a" / "vmkernel.log", vmkernel())
    with plan([tmp_path / "a"]) as what:
        assert names(what.files, tmp_path / "a") == ["vmkernel.log"]
        assert [Path(name).name for name in what.skipped] == ["README.md"]


# Hosts, VMs and datastores


def tree(root: Path) -> Path:
    write(root / "esx01.lab.example" / "vmkernel.log", vmkernel())
    write(root / "esx01.lab.example" / "var" / "log" / "hostd.0.gz", gzip.compress(hostd()))
    write(root / "esx01.lab.example" / "vmfs/volumes/ds-gold/web 01/vmware.log", vmware_log())
    write(root / "esx02" / "samples" / "run.csv", esxtop("esx02"))
    return root


def test_host_vm_and_datastore_come_from_the_folders(tmp_path: Path) -> None:
    what = planned(tree(tmp_path / "logs"))
    owners = {Path(file.name).name: file.owner for file in what}
    assert owners == {
        "vmkernel.log": ("syslog", "esx01.lab.example", None, None),
        "hostd.0.gz": ("syslog", "esx01.lab.example", None, None),
        "vmware.log": ("vmware_log", "esx01.lab.example", "web 01", "ds-gold"),
        "run.csv": ("esxtop", "esx02", None, None),
    }


def test_a_folder_of_one_host_gives_the_host_its_name(tmp_path: Path) -> None:
    root = tree(tmp_path / "logs")
    assert {file.host for file in planned(root / "esx01.lab.example")} == {"esx01.lab.example"}


def test_options_take_precedence_over_the_folders(tmp_path: Path) -> None:
    what = planned(tree(tmp_path / "logs"), host="a", vm="b", datastore="c")
    assert {file.owner for file in what} == {
        ("syslog", "a", None, None),
        ("vmware_log", "a", "b", "c"),
        ("esxtop", "a", None, None),
    }


def test_a_single_vmware_log_needs_the_option_vm(tmp_path: Path) -> None:
    path = write(tmp_path / "esx01" / "vmware.log", vmware_log())
    [complaint] = complaints(path)
    assert complaint.startswith("vmware.log: it is not known which VM wrote it")
    assert "Give --vm" in complaint
    assert planned(path, vm="web01")[0].owner == ("vmware_log", None, "web01", None)


def test_a_single_vmware_log_below_vmfs_volumes_gets_vm_and_datastore(tmp_path: Path) -> None:
    path = write(tmp_path / "vmfs/volumes/ds/web01/vmware-3.log", vmware_log())
    assert planned(path)[0].owner == ("vmware_log", None, "web01", "ds")


def test_a_folder_without_a_hosts_log_is_not_taken_for_a_host(tmp_path: Path) -> None:
    write(tmp_path / "collected" / "of_yesterday.log", vmkernel())
    assert planned(tmp_path / "collected")[0].host is None
    write(tmp_path / "log" / "vmkernel.log", vmkernel())
    assert planned(tmp_path / "log")[0].host is None


# Order


def test_the_oldest_file_comes_first(tmp_path: Path) -> None:
    folder = tmp_path / "esx01/vmfs/volumes/ds/web01"
    for name, day in (("vmware.log", 9), ("vmware-2.log", 7), ("vmware-10.log", 8)):
        write(folder / name, vmware_log(day))
    for name, day in (("hostd.0.gz", 3), ("hostd.1.gz", 2), ("hostd.10.gz", 1)):
        write(tmp_path / "esx01" / name, gzip.compress(hostd(day)))
    write(tmp_path / "esx01" / "hostd.log", hostd(4))
    assert [Path(file.name).name for file in planned(tmp_path)] == [
        "hostd.10.gz",
        "hostd.1.gz",
        "hostd.0.gz",
        "hostd.log",
        "vmware-2.log",
        "vmware-10.log",
        "vmware.log",
    ]


def test_files_with_equal_times_are_ordered_by_number(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        write(tmp_path / "esx01" / f"vmware-{number}.log", vmware_log())
    found = [Path(file.name).name for file in planned(tmp_path, vm="web01")]
    assert found == ["vmware-1.log", "vmware-9.log", "vmware-10.log"]


def test_the_first_event_time_is_that_of_the_first_timestamp(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", b"junk\n\nDec 31 05:06:07.089: vmx| x\n")
    assert planned(path, vm="a")[0].first_event_time == "2023-12-31T05:06:07.089Z"
    assert planned(path, vm="a", year=2009)[0].first_event_time == "2009-12-31T05:06:07.089Z"
    vienna = planned(path, vm="a", zone=ZoneInfo("Europe/Vienna"))[0]
    assert vienna.first_event_time == "2023-12-31T04:06:07.089Z"
    path = write(tmp_path / "y.csv", esxtop())
    assert planned(path)[0].first_event_time == "2024-06-30T12:00:00Z"


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "esx01" / "vmkernel.log", vmkernel())
    (tmp_path / "esx01" / "link.log").symlink_to(path)
    os.link(path, tmp_path / "esx01" / "hard.log")
    (tmp_path / "esx01" / "loop").symlink_to(tmp_path)
    assert len(planned(path, tmp_path, tmp_path / "esx01")) == 1


# Archives


BUNDLE = {
    "esx-esx01.lab.example-2024-05-07--11.12-2099/var/run/log/vmkernel.log": vmkernel(),
    "./esx-esx01.lab.example-2024-05-07--11.12-2099/var/run/log/hostd.0.gz": gzip.compress(hostd()),
    "esx-esx01.lab.example-2024-05-07--11.12-2099/vmfs/volumes/5f-1/web01/vmware.log": vmware_log(),
    "esx-esx01.lab.example-2024-05-07--11.12-2099/etc/vmware/esx.conf": b"/a/b = 1\n" * 100,
    "esx-esx01.lab.example-2024-05-07--11.12-2099/var/core/core.1": b"\x7fELF\0\0" * 99_999,
    "esx-esx01.lab.example-2024-05-07--11.12-2099/commands/empty.txt": b"",
}


@pytest.mark.parametrize(
    ("name", "pack"),
    [("b.tgz", tgz), ("b.tar", tar), ("b.tar.zst", lambda members: zst(tar(members)))],
    ids=["tgz", "tar", "tar.zst"],
)
def test_the_logs_of_a_bundle_get_host_vm_and_datastore(tmp_path: Path, name: str, pack) -> None:  # type: ignore[no-untyped-def]
    path = write(tmp_path / name, pack(BUNDLE))
    with plan([path]) as what:
        assert what.problems == []
        found = {
            file.name.removeprefix(f"{path}!esx-esx01.lab.example-2024-05-07--11.12-2099/"): (
                file.owner
            )
            for file in what.files
        }
        assert found == {
            "var/run/log/vmkernel.log": ("syslog", "esx01.lab.example", None, None),
            "var/run/log/hostd.0.gz": ("syslog", "esx01.lab.example", None, None),
            "vmfs/volumes/5f-1/web01/vmware.log": (
                "vmware_log",
                "esx01.lab.example",
                "web01",
                "5f-1",
            ),
        }
        unpacked = [file.path for file in what.files]
        assert all(file.exists() for file in unpacked)
        assert len(list(unpacked[0].parent.iterdir())) == 3
        assert len(what.skipped) == 3
    assert not any(file.exists() for file in unpacked)


def test_an_unpacked_bundle_gives_the_same_files(tmp_path: Path) -> None:
    for name, content in BUNDLE.items():
        write(tmp_path / "collected" / name, content)
    for path in (tmp_path / "collected", next((tmp_path / "collected").iterdir())):
        assert {file.host for file in planned(path)} == {"esx01.lab.example"}


def test_archives_of_several_hosts_and_of_one_host_give_the_hosts(tmp_path: Path) -> None:
    many = write(tmp_path / "all.tgz", tgz({"esx01/vmkernel.log": vmkernel()}))
    one = write(tmp_path / "esx02.tar.gz", tgz({"var/log/vmkernel.log": vmkernel()}))
    assert [file.host for file in planned(many, one)] == ["esx01", "esx02"]


def test_nested_archives_are_unpacked(tmp_path: Path) -> None:
    inner = tgz({"esx01/vmkernel.log": vmkernel()})
    write(tmp_path / "logs" / "outer.tgz", tgz({"x/inner.tgz": inner}))
    (file,) = planned(tmp_path / "logs")
    assert file.name == f"{tmp_path}/logs/outer.tgz!x/inner.tgz!esx01/vmkernel.log"
    assert file.host == "esx01"


def test_the_fragments_of_a_log_are_joined(tmp_path: Path) -> None:
    # vm-support splits large files: these names and sizes are from its bundles.
    log, output = vmkernel(count=60), b"a line of an output\n" * 60
    bundle = "esx-esx01.lab.example-2024-05-07--11.12-2099"
    members = {
        f"{bundle}/{name}.FRAG-{number:05}": content[number * 1000 : number * 1000 + 1000]
        for name, content in (
            ("var/run/log/vmkernel.log", log),
            ("var/run/log/hostd.0.gz", gzip.compress(hostd() * 20, compresslevel=0)),
            ("commands/vsi_traverse_-s.txt", output),
        )
        for number in range(-(-len(content) // 1000))
    }
    for name, content in members.items():
        write(tmp_path / "unpacked" / name, content)
    as_packed = write(tmp_path / "a.tgz", tgz(members))
    repacked = write(tmp_path / "b.tgz", tgz(dict(reversed(members.items()))))
    shuffled = write(
        tmp_path / "c.zip", zipped(dict(sorted(members.items(), key=lambda m: m[0][::-1])))
    )
    vmkernels = sorted((tmp_path / "unpacked" / bundle / "var/run/log").glob("vmkernel.log.*"))
    for paths in ([tmp_path / "unpacked"], [as_packed], [repacked], [shuffled], vmkernels):
        with plan(paths) as what:
            assert what.problems == []
            assert all(each.host == "esx01.lab.example" for each in what.files)
            found = {each.name.rpartition("/")[2]: each for each in what.files}
            assert set(found) - {"hostd.0.gz"} == {"vmkernel.log"}
            assert found["vmkernel.log"].path.read_bytes() == log
            assert found["vmkernel.log"].generation == generation_of(vmkernel(count=1))
            assert len(what.skipped) == (0 if paths is vmkernels else 1)
            assert "hostd.0.gz" in found or paths is vmkernels


def test_missing_fragments_are_reported_and_the_others_read(tmp_path: Path) -> None:
    log = vmkernel(count=60)
    members = {f"var/log/vmkernel.log.FRAG-{n:05}": log[n * 500 : n * 500 + 500] for n in (0, 1, 3)}
    for name, content in members.items():
        write(tmp_path / "esx01" / name, content)
    for path in (tmp_path / "esx01", write(tmp_path / "b.tgz", tgz(members))):
        with plan([path]) as what:
            (file,) = what.files
            assert file.path.read_bytes() == log[:1000] + b"\n" + log[1500:2000]
        assert complaints(path) == [
            "vmkernel.log: 1 of its 4 fragments are missing; the others were read"
        ]


def test_a_file_that_was_joined_already_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "esx01/vmkernel.log", vmkernel())
    write(tmp_path / "esx01/vmkernel.log.FRAG-00000", vmkernel()[:50])
    (file,) = planned(tmp_path)
    assert file.path.read_bytes() == vmkernel()


def test_a_truncated_archive_is_read_up_to_the_cut(tmp_path: Path) -> None:
    members = {"esx01/vmkernel.log": vmkernel(count=60), "esx01/hostd.log": os.urandom(99_999)}
    path = write(tmp_path / "cut.tgz", tgz(members)[:-50_000])
    with plan([path]) as what:
        assert [file.kind for file in what.files] == ["syslog", "binary"]
        assert "truncated" in what.problems[0].sentence


# Errors


def test_a_path_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    assert complaints(tmp_path / "absent") == ["absent: there is no such file or folder"]


def test_a_folder_without_logs_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "a" / "notes.txt", b"nothing to see\n")
    assert complaints(tmp_path / "a") == ["a: there is no ESXi log in this folder"]


@pytest.mark.parametrize("pack", [zipped, tgz])
@pytest.mark.parametrize(
    ("name", "members", "hosts"),
    [
        ("case-17", ["case-17/esx01/vmkernel.log", "case-17/192.0.2.7/hostd.log"], 2),
        ("case-17", ["case-17/esx01/var/log/vmkernel.log"], 1),
        ("esx01", ["esx01/var/log/vmkernel.log", "esx01/hostd.log"], 1),
        ("esx01", ["esx01/2024-05-06/vmkernel.log", "esx01/2024-05-07/vmkernel.log"], 1),
        ("esx01", ["esx01/logs/vmkernel.log"], 1),
        ("esx01", ["vmkernel.log", "hostd.log"], 1),
        ("logs", ["esx01/vmkernel.log", "192.0.2.7/hostd.log"], 2),
    ],
)
def test_the_hosts_of_an_archive_are_found_in_its_folders(
    tmp_path: Path, pack: Callable[..., bytes], name: str, members: list[str], hosts: int
) -> None:
    """Windows packs a folder with all that is in it."""
    ending = "zip" if pack is zipped else "tgz"
    path = write(tmp_path / f"{name}.{ending}", pack({each: vmkernel() for each in members}))
    expected = {"esx01", "192.0.2.7"} if hosts == 2 else {"esx01"}
    assert {file.host for file in planned(path)} == expected


@pytest.mark.parametrize("pack", [zipped, tgz])
@pytest.mark.parametrize("top", ["case-17/", "", "./"])
def test_the_files_that_macos_adds_are_skipped(
    tmp_path: Path, pack: Callable[..., bytes], top: str
) -> None:
    """It packs an AppleDouble file beside each file, in zip archives in a folder of its own."""
    added = b"\0\5\x16\7\0\2\0\0Mac OS X        " + b"\0\2\0\0\0\t" * 20 + os.urandom(40)
    members = {
        f"{top}esx01/vmkernel.log": vmkernel(),
        f"{top}esx01/._vmkernel.log": added,
        f"{top}._hostd.log": added,
        f"__MACOSX/{top}esx01/._vmkernel.log": added,
    }
    ending = "zip" if pack is zipped else "tgz"
    path = write(tmp_path / f"case-17.{ending}", pack(members))
    assert [file.host for file in planned(path)] == ["esx01"]
    write(tmp_path / "share/esx01/vmkernel.log", vmkernel())
    write(tmp_path / "share/esx01/._vmkernel.log", added)
    assert [file.host for file in planned(tmp_path / "share")] == ["esx01"]


def test_an_archive_without_logs_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tgz", tgz({"notes.txt": b"nothing to see\n"}))
    assert complaints(path) == ["a.tgz: there is no ESXi log in this archive"]


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0), b"\0" * 9000])
def test_an_empty_file_is_reported(tmp_path: Path, content: bytes) -> None:
    assert complaints(write(tmp_path / "a.log", content)) == ["a.log: the file is empty"]


@pytest.mark.parametrize("name", ["esx01.log", "notes"])
def test_a_log_that_begins_with_nuls_is_read(tmp_path: Path, name: str) -> None:
    """It was copied and truncated while it was written."""
    path = write(tmp_path / name, b"\0" * 1_000_000 + vmkernel())
    with plan([path]) as what:
        assert [file.kind for file in what.files] == ["syslog"]
        assert what.files[0].first_event_time == "2021-05-06T07:08:00.123Z"
    assert complaints(path) == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_log_that_a_windows_program_saved_is_read(tmp_path: Path, encoding: str) -> None:
    text = "\ufeff" + vmkernel(count=1).decode().replace("\n", "\r\n")
    path = write(tmp_path / "notes", text.encode(encoding))
    with plan([path]) as what:
        [file] = what.files
        assert (file.kind, file.first_event_time) == ("syslog", "2021-05-06T07:08:00.123Z")
        [(_, _, record), *_] = records(file, "r1")
        assert record["message"] == "Vol3: 731: line 0"
    assert complaints(path) == []


@pytest.mark.parametrize("name", ["messages-20240506.xz", "esx01.log.2.bz2", "vmkernel.1.xz"])
def test_a_rotated_log_may_be_packed_with_bzip2_or_xz(tmp_path: Path, name: str) -> None:
    """As logrotate's `compresscmd` does on a syslog server; a damaged one is reported."""
    pack = bz2.compress if name.endswith("bz2") else lzma.compress
    path = write(tmp_path / "esx01" / name, pack(vmkernel()))
    with plan([tmp_path]) as what:
        assert [file.kind for file in what.files] == ["syslog"]
    write(path, pack(vmkernel())[:30])
    assert "is truncated" in complaints(tmp_path)[0]


def test_an_empty_file_in_a_folder_is_reported_if_its_name_is_a_logs(tmp_path: Path) -> None:
    write(tmp_path / "esx01" / "vmkernel.log", b"")
    write(tmp_path / "esx01" / "marker", b"")
    assert complaints(tmp_path) == ["vmkernel.log: the file is empty"]


def test_a_binary_file_is_reported_and_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", b"\x7fELF\x02\x01\0\0" + os.urandom(9999))
    with plan([path]) as what:
        assert [file.kind for file in what.files] == ["binary"]
    assert complaints(path) == [
        "a.log: the file holds binary data and is not a log; its lines are rejected"
        " (`stunwatch sql rejected_by_reason`)"
    ]


def test_a_file_of_prose_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", b"On Monday the array was slow.\n\n   Very slow.\n")
    with plan([path]) as what:
        assert [file.kind for file in what.files] == ["syslog"]
        assert "not recognised as an ESXi log" in what.problems[0].sentence


def test_a_file_without_read_permission_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "esx01" / "closed.log", vmkernel())
    write(tmp_path / "esx01" / "vmkernel.log", vmkernel())
    real_open = Path.open

    def refuse(path: Path, *args: object, **more: object) -> object:
        if path.name == "closed.log":
            raise PermissionError(13, "Permission denied")
        return real_open(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", refuse)
    with plan([tmp_path]) as what:
        assert [Path(file.name).name for file in what.files] == ["vmkernel.log"]
        assert [problem.sentence for problem in what.problems] == [
            "it cannot be read: permission denied"
        ]


def test_a_folder_without_read_permission_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "esx01" / "vmkernel.log", vmkernel())
    real_scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("esx01"):
            raise PermissionError(13, "Permission denied", str(path))
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert complaints(tmp_path) == ["esx01: it cannot be read: permission denied"]


def test_a_path_that_is_neither_file_nor_folder_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert complaints(tmp_path / "pipe") == ["pipe: it is neither a file nor a folder"]
    assert complaints(tmp_path) == [f"{tmp_path.name}: there is no ESXi log in this folder"]


def test_a_dangling_link_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "esx01" / "vmkernel.log", vmkernel())
    (tmp_path / "esx01" / "hostd.log").symlink_to("/nowhere/hostd.log")
    with plan([tmp_path]) as what:
        assert what.problems == []
        assert what.skipped == [f"{tmp_path}/esx01/hostd.log"]


@pytest.mark.parametrize("written_at", [-1e9, 1e12])
def test_an_impossible_modification_time_becomes_the_epoch(
    tmp_path: Path, written_at: float
) -> None:
    path = write(tmp_path / "vmkernel.log", vmkernel())
    os.utime(path, (written_at, written_at))
    assert planned(path)[0].written_at.year == 1970


def test_a_damaged_archive_is_reported_and_partly_read(tmp_path: Path) -> None:
    content = bytearray(tar({"esx01/vmkernel.log": vmkernel(), "esx01/hostd.log": hostd()}))
    content[1536:1600] = b"\xff" * 64  # the second log's header
    with plan([write(tmp_path / "a.tar", bytes(content))]) as what:
        assert [file.kind for file in what.files] == ["syslog"]
        assert [problem.sentence for problem in what.problems] == [
            "the archive is damaged; a part of it was read"
        ]


def test_the_size_of_a_plan_is_the_sum_of_its_files(tmp_path: Path) -> None:
    what = plan([tree(tmp_path)])
    assert isinstance(what, Plan)
    assert what.size_bytes == sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file())
