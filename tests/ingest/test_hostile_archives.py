"""Archives and folders made to break a replay: the bad part is reported, the rest is read.

The limits are small here, so that the test data can be small too.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import struct
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from trees import esxtop, hostd, tar, tgz, vmkernel, vmware_log, write, zipped, zst

from stunwatch.ingest.replay import Plan, Reading, plan
from stunwatch.ingest.replay.streams import LIMITS, Limits

SMALL = Limits(
    ratio=20,
    free_bytes=1 << 20,
    header_bytes=64 << 10,
    members=200,
    logs=20,
    depth=3,
    problems=50,
    spare_disk_bytes=0,
)
GOOD = "esx01/vmkernel.log"


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: object) -> bytes:
    """Return one member: its header as in an archive, and its content."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.type = kind
    for key, value in more.items():
        setattr(info, key, value)
    padding = b"\0" * (-len(content) % 512)
    return info.tobuf(tarfile.GNU_FORMAT) + content + padding


def pax(**records: str) -> bytes:
    """Return an extended header for the next member."""
    content = b""
    for key, value in records.items():
        record = f" {key}={value}\n".encode()
        length = len(record) + len(str(len(record)))
        length = len(record) + len(str(length))
        content += str(length).encode() + record
    return member("pax", content, tarfile.XHDTYPE)


END = b"\0" * 1024
LOG = member(GOOD, vmkernel())
AFTER = member("esx01/hostd.log", hostd())


def shipped(what: Plan) -> list[str]:
    """Read all files, and return their inner names."""
    for file in what.files:
        for messages in Reading(file, "r1"):
            for _, _, record in messages:
                assert record["file"] == file.name
    return [file.name.rpartition("!")[2] for file in what.files]


def unpacked_bytes(what: Plan) -> int:
    folders = [Path(folder.name) for folder in what._unpacked]
    return sum(path.stat().st_size for folder in folders for path in folder.iterdir())


# Kinds of members


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (pax(path="1" * 5000) + member("x", vmkernel()), "its name has 5,000 bytes"),
        (
            member("@", b"7" * 5000 + b"\0", tarfile.GNUTYPE_LONGNAME) + member("x", vmkernel()),
            "its name has 5,000 bytes",
        ),
        (pax(comment="x" * 70_000) + member("x.log", vmkernel()), "more than 65,536 bytes"),
        (
            member("@", b"n" * 70_000, tarfile.GNUTYPE_LONGNAME) + member("x.log", vmkernel()),
            "more than 65,536 bytes",
        ),
        (pax(size="9" * 5000) + member("x.log", vmkernel()), "its extended header is damaged"),
        (pax(size="-1") + member("x.log", vmkernel()), "its extended header is damaged"),
        (
            member("pax", b"0 path=x\n", tarfile.XHDTYPE) + member("x.log", vmkernel()),
            "its extended header is damaged",
        ),
        (
            pax(**{"GNU.sparse.major": "1", "GNU.sparse.realsize": "9" * 30, "path": "x.log"})
            + member("x.log", b"9" * 5000),
            "stored as a sparse file",
        ),
        (member("x.log", b"", tarfile.GNUTYPE_SPARSE), "stored as a sparse file"),
    ],
)
def test_a_bad_member_is_reported_and_the_others_are_read(
    tmp_path: Path, bad: bytes, sentence: str
) -> None:
    path = write(tmp_path / "a.tar", LOG + bad + AFTER + END)
    with plan([path], limits=SMALL) as what:
        assert sorted(shipped(what)) == ["esx01/hostd.log", GOOD]
        [problem] = what.problems
        assert sentence in problem.sentence


@pytest.mark.parametrize(
    "odd",
    [
        member("a.log", kind=tarfile.FIFOTYPE),
        member("a.log", kind=tarfile.CHRTYPE, devmajor=1, devminor=5),
        member("a.log", kind=tarfile.BLKTYPE, devmajor=8),
        member("a.log", kind=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("a.log", kind=tarfile.LNKTYPE, linkname=GOOD),
        member("a", b"LABEL"[:0], b"V"),
        member("a", b"unknown kind", b"Q"),
        pax(mtime="nan", path="a.log", atime="x" * 100) + member("a", kind=tarfile.DIRTYPE),
        member("g", b"30 mtime=1234567890.123456789\n", tarfile.XGLTYPE),
        END,
    ],
)
def test_a_member_that_is_not_a_regular_file_is_skipped(tmp_path: Path, odd: bytes) -> None:
    path = write(tmp_path / "a.tar", LOG + odd + AFTER + END)
    with plan([path], limits=SMALL) as what:
        assert sorted(shipped(what)) == ["esx01/hostd.log", GOOD]
        assert what.problems == []


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/cron.d/x.log",
        "/etc/x.log",
        "C:\\x.log",
        "x[/foo].log",
        "\x1b]52;c;AAAA\x07.log",
        "a!esx-b-2024-01-01!c.log",
        "line\nfeed.log",
        "\u202egol.log",
        "vmware-" + "9" * 3000 + ".log",
        "\udcff\udcfe.log",
    ],
)
def test_a_hostile_member_name_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.tar", tar({name[:90]: vmkernel(count=1), GOOD: vmkernel()}))
    with plan([path], limits=SMALL) as what:
        assert len(shipped(what)) == 2
        assert what.problems == []
        [folder] = [Path(each.name) for each in what._unpacked]
        assert sorted(each.name for each in folder.iterdir()) == ["0", "1"]


def test_file_numbers_of_any_length_are_sorted(tmp_path: Path) -> None:
    numbers = ["2", "010", "10", "1" * 240]
    for number in numbers:
        write(tmp_path / f"vmware-{number}.log", vmkernel())
    with plan([tmp_path]) as what:
        found = [Path(file.name).stem.removeprefix("vmware-") for file in what.files]
    assert found[0] == "2"
    assert found[-1] == "1" * 240


def test_a_member_that_occurs_twice_is_read_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", LOG + member(GOOD, vmkernel(count=9)) + END)
    with plan([path], limits=SMALL) as what:
        assert shipped(what) == [GOOD, GOOD]


def test_concatenated_archives_are_all_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", LOG + END * 10 + AFTER + END)
    with plan([path], limits=SMALL) as what:
        assert sorted(shipped(what)) == ["esx01/hostd.log", GOOD]


def test_reading_continues_after_a_damaged_header(tmp_path: Path) -> None:
    damaged = bytearray(member("esx01/vobd.log", vmkernel()))
    damaged[:100] = b"\xff" * 100
    path = write(tmp_path / "a.tar", LOG + bytes(damaged) + AFTER + END)
    with plan([path], limits=SMALL) as what:
        assert sorted(shipped(what)) == ["esx01/hostd.log", GOOD]
        assert [problem.sentence for problem in what.problems] == [
            "the archive is damaged; a part of it was read"
        ]


# Limits on size and number


def test_an_extended_header_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with gzip.open(packed, "wb", compresslevel=1) as stream:
        stream.write(LOG)
        header = tarfile.TarInfo("pax")
        header.type, header.size = tarfile.XHDTYPE, 50 << 20
        stream.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(50):
            stream.write(b"x" * (1 << 20))
        stream.write(AFTER + END)
    path = write(tmp_path / "a.tgz", packed.getvalue())
    del packed
    tracemalloc.start()
    with plan([path], limits=Limits(spare_disk_bytes=0)) as what:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12 << 20
        [problem] = what.problems
        assert "its extended header has more than 1,048,576 bytes" in problem.sentence
        assert shipped(what) == [GOOD]


@pytest.mark.parametrize("pack", [gzip.compress, zst], ids=["gzip", "zstd"])
def test_a_compression_bomb_does_not_fill_the_disk(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    bomb = vmkernel() + b"x" * (30 << 20)
    path = write(tmp_path / "a.tgz", pack(tar({GOOD: vmkernel(), "esx01/hostd.log": bomb})))
    with plan([path], limits=SMALL) as what:
        assert unpacked_bytes(what) <= SMALL.most_bytes(path.stat().st_size)
        assert GOOD in shipped(what)
        assert any("times its size" in problem.sentence for problem in what.problems)


def test_a_bomb_spread_over_members_and_archives_does_not_fill_the_disk(tmp_path: Path) -> None:
    """Random data keeps the inner archives from being recognised as bombs by themselves."""
    noise = random.Random(1).randbytes(5000).hex().encode()
    inner = tgz({f"{each}.log": vmkernel(count=1) + noise * 20 for each in range(15)})
    path = write(tmp_path / "a.tgz", tgz({GOOD: vmkernel(), "b.tgz": inner, "c.tgz": inner}))
    small = Limits(ratio=10, free_bytes=500_000, logs=20, depth=3, spare_disk_bytes=0)
    with plan([path], limits=small) as what:
        assert unpacked_bytes(what) <= small.most_bytes(path.stat().st_size)
        assert GOOD in shipped(what)
        assert len(what.files) < 21
        assert what.problems


def test_nested_archives_are_unpacked_to_a_limited_depth(tmp_path: Path) -> None:
    content = tar({GOOD: vmkernel()})
    for _ in range(600):
        content = member("a.tar", content) + END
    path = write(tmp_path / "a.tgz", tgz({GOOD: vmkernel(), "b.tar": content}))
    with plan([path]) as what:
        assert shipped(what) == [GOOD]
        [problem] = what.problems
        assert "an archive within 8 archives" in problem.sentence
        assert len(what._unpacked) == LIMITS.depth


def test_an_archive_with_too_many_members_is_reported(tmp_path: Path) -> None:
    content = b"".join(member(f"{each}.dat", b"\0") for each in range(300))
    path = write(tmp_path / "a.tar", LOG + content + AFTER + END)
    with plan([path], limits=SMALL) as what:
        assert shipped(what) == [GOOD]
        assert "more than 200 members" in what.problems[0].sentence


def test_an_archive_with_too_many_logs_is_reported(tmp_path: Path) -> None:
    content = b"".join(member(f"{each}.log", vmkernel(count=1)) for each in range(100))
    with plan([write(tmp_path / "a.tar", content + END)], limits=SMALL) as what:
        assert len(shipped(what)) == 20
        assert "more than 20 logs" in what.problems[0].sentence
        assert len(what.problems) == SMALL.problems + 1
        assert what.problems[-1].sentence.endswith("Further problems are not listed")


def test_unpacking_leaves_free_space_on_the_disk(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", tar({GOOD: vmkernel()}))
    with plan([path], limits=Limits(spare_disk_bytes=1 << 62)) as what:
        assert what.files == []
        assert "TMPDIR names another folder" in what.problems[0].sentence


def test_a_member_with_a_claimed_size_of_an_exabyte_is_reported(tmp_path: Path) -> None:
    header = tarfile.TarInfo("esx01/hostd.log")
    header.size = 1 << 60
    path = write(tmp_path / "a.tar", LOG + header.tobuf(tarfile.GNU_FORMAT) + hostd())
    with plan([path]) as what:
        assert shipped(what) == [GOOD]
        assert "too little room" in what.problems[0].sentence


@pytest.mark.parametrize(
    ("magic", "name"),
    [
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
        (b"Rar!\x1a\x07\x01", "RAR"),
        (b"\x1f\x9d\x90", "compress"),
        (b"\x04\x22\x4d\x18", "LZ4"),
    ],
)
def test_unsupported_archive_formats_are_reported_by_name(
    tmp_path: Path, magic: bytes, name: str
) -> None:
    sentence = f"it is packed with {name}, which replay does not unpack"
    path = write(tmp_path / "case/logs.packed", magic + os.urandom(200))
    with plan([path, write(tmp_path / GOOD, vmkernel())]) as what:
        assert [file.kind for file in what.files] == ["syslog"]
        [problem] = what.problems
        assert problem.sentence.startswith(sentence)
        assert problem.is_failure
    # In a folder too. It may be anything, so the replay of the logs beside it has not failed.
    write(tmp_path / "case" / GOOD, vmkernel())
    with plan([tmp_path / "case"]) as what:
        assert len(what.files) == 1
        [problem] = what.problems
        assert problem.sentence.startswith(sentence)
        assert not what.is_bad


# Zip archives

ZIP = {GOOD: vmkernel(), "esx01/hostd.log": hostd()}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_archive_is_read_like_a_tar(tmp_path: Path, method: int) -> None:
    """Windows programs write it, some with \\ between folders; with bundles and logs inside."""
    inner = tgz({"esx-esx07-2024-05-06--07.10-1/var/log/vmkernel.log": vmkernel()})
    members = {
        "esx01\\var\\log\\hostd.log": hostd(),
        "esx01/var/log/vmkernel.1.gz": gzip.compress(vmkernel()),
        "bundle.tgz": inner,
        "more.zip": zipped({"esx09/vobd.log": vmkernel()}, method),
        "notes.txt": b"Dear support,\n",
    }
    path = write(tmp_path / "case.zip", zipped(members, method))
    with plan([path]) as what:
        assert what.problems == []
        assert sorted(shipped(what)) == [
            "esx-esx07-2024-05-06--07.10-1/var/log/vmkernel.log",
            "esx01/var/log/hostd.log",
            "esx01/var/log/vmkernel.1.gz",
            "esx09/vobd.log",
        ]
        assert {file.host for file in what.files} == {"esx01", "esx07", "esx09"}
        assert what.files[0].written_at.isoformat() == "2024-06-30T12:00:00+00:00"


@pytest.mark.parametrize(
    "content",
    [zipped(ZIP)[:-30], zipped(ZIP)[:50], gzip.compress(zipped(ZIP)), b"PK\3\4" + b"x" * 500],
    ids=["cut off", "nearly empty", "compressed again", "not a zip archive"],
)
def test_a_zip_archive_that_cannot_be_read_is_reported(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "logs.zip", content)
    with plan([path, write(tmp_path / GOOD, vmkernel())]) as what:
        assert shipped(what) == [str(tmp_path / GOOD)]
        [problem] = what.problems
        assert problem.sentence.startswith("the archive is cut off, damaged or compressed again")


def test_an_encrypted_member_of_a_zip_archive_is_reported(tmp_path: Path) -> None:
    content = bytearray(zipped(ZIP))
    at = content.index(b"PK\1\2", content.index(b"PK\1\2") + 1)  # of the first log
    content[at + 8] |= 1
    with plan([write(tmp_path / "logs.zip", bytes(content))]) as what:
        assert shipped(what) == ["esx01/hostd.log"]
        [problem] = what.problems
        assert problem.sentence.startswith("it is encrypted")
        assert problem.path.endswith("logs.zip!esx01/vmkernel.log")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_rare_compression_in_a_zip_archive_is_reported(tmp_path: Path, method: int) -> None:
    """zipfile decompresses these with unbounded memory."""
    with plan([write(tmp_path / "logs.zip", zipped({GOOD: vmkernel()}, method))]) as what:
        assert what.files == []
        assert f"compressed by method {method} of zip" in what.problems[0].sentence


def test_a_damaged_member_of_a_zip_archive_is_read_up_to_the_damage(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(600_000).hex().encode()
    log = vmkernel() + b"".join(noise[at : at + 99] + b"\n" for at in range(0, len(noise), 99))
    content = bytearray(zipped({GOOD: log, "esx01/hostd.log": hostd()}))
    at = len(content) // 2
    content[at : at + 50] = b"\xff" * 50
    with plan([write(tmp_path / "logs.zip", bytes(content))]) as what:
        assert sorted(shipped(what)) == ["esx01/hostd.log", GOOD]
        [problem] = what.problems
        assert problem.sentence == "the archive is damaged; a part of it was read"


def test_a_bomb_in_a_zip_archive_ends_early(tmp_path: Path) -> None:
    """Also if its large members are no logs."""
    bomb = zipped({f"{each}.dat": b"\1" * (2 << 20) for each in range(20)} | {GOOD: vmkernel()})
    with plan([write(tmp_path / "bomb.zip", bomb)], limits=SMALL) as what:
        assert "times its size" in what.problems[0].sentence
        assert unpacked_bytes(what) <= SMALL.most_bytes(len(bomb))


def test_a_zip_archive_with_a_long_list_of_members_is_reported(tmp_path: Path) -> None:
    content = zipped({f"{each}/vmkernel.log": b"" for each in range(20_000)})
    limits = Limits(spare_disk_bytes=0, zip_list_bytes=1 << 20)
    path = write(tmp_path / "many.zip", content)
    tracemalloc.start()
    with plan([path], limits=limits) as what:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 6 << 20
        assert "list of members has more than 1,048,576 bytes" in what.problems[0].sentence


@pytest.mark.parametrize(
    "name",
    ["../../../etc/cron.d/x.log", "/etc/x.log", "C:\\x.log", "x\0y.log", "a!b.log", "é.log", ""],
)
def test_a_hostile_name_in_a_zip_archive_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.zip", zipped({name: vmkernel(count=1), GOOD: vmkernel()}))
    with plan([path], limits=SMALL) as what:
        assert len(shipped(what)) == 2
        [folder] = [Path(each.name) for each in what._unpacked]
        assert sorted(each.name for each in folder.iterdir()) == ["0", "1"]


# Folders: unpacked bundles


def test_links_inside_a_folder_are_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret", b"root:x:0:0:root:/root:/bin/sh\n")
    root = tmp_path / "esx-esx01-2024-05-07"
    write(root / "var/run/log/vmkernel.log", vmkernel())
    (root / "var/log").mkdir()
    (root / "var/log/hostd.log").symlink_to(secret)
    (root / "var/log/vobd.log").symlink_to("../../../secret")
    (root / "var/log/loop.log").symlink_to("loop.log")
    (root / "var/log/out").symlink_to(tmp_path)
    # As in real bundles: a link to another log in it, and one to a path on the host.
    (root / "var/log/vmkernel.log").symlink_to("../run/log/vmkernel.log")
    (root / "var/log/vpxa.log").symlink_to("/scratch/log/vpxa.log")
    (root / "etc").mkdir()
    (root / "etc/localtime").symlink_to(secret)
    with plan([root]) as what:
        assert [Path(file.name).name for file in what.files] == ["vmkernel.log"]
        leading_out = [
            Path(problem.path).name
            for problem in what.problems
            if "leads out of the folder" in problem.sentence
        ]
        assert leading_out == ["hostd.log", "vobd.log"]
        assert len(what.problems) <= 3  # including the loop


def test_a_link_given_by_the_user_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "logs/esx01/vmkernel.log", vmkernel())
    (tmp_path / "latest").symlink_to(tmp_path / "logs")
    (tmp_path / "latest.log").symlink_to(tmp_path / "logs/esx01/vmkernel.log")
    for path in (tmp_path / "latest", tmp_path / "latest.log"):
        with plan([path]) as what:
            assert (len(what.files), what.problems) == (1, [])


def test_a_fifo_does_not_block_a_replay(tmp_path: Path) -> None:
    write(tmp_path / GOOD, vmkernel())
    os.mkfifo(tmp_path / "esx01/hostd.log")
    os.mkfifo(tmp_path / "esx01/pipe")
    with plan([tmp_path]) as what:
        assert len(what.files) == 1
        assert [(Path(each.path).name, each.sentence) for each in what.problems] == [
            ("hostd.log", "it is not a regular file")
        ]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_files_whose_names_are_not_utf8_are_read(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/esx01"
    os.mkdir(folder)  # noqa: PTH102 (bytes)
    for name in (b"vmkernel-\xff.log", b"hostd\xc3.log"):
        with open(folder + b"/" + name, "wb") as file:  # noqa: PTH123 (bytes)
            file.write(vmkernel())
    with plan([tmp_path]) as what:
        assert [Path(name).name for name in shipped(what)] == ["hostdÃ.log", "vmkernel-ÿ.log"]
        assert what.problems == []


# Random changes


def mutants(seed: int, count: int) -> Iterator[bytes]:
    """Yield small archives with bytes changed, removed, duplicated or moved; packed or not."""
    chance = random.Random(seed)
    parts = [
        LOG,
        AFTER,
        member("esx01/vmfs/volumes/ds/vm/vmware.log", vmware_log()),
        member("esx01/e.csv", esxtop()),
        pax(path="esx01/long.log", size=str(len(hostd())), mtime="1.5") + member("x", hostd()),
        member("@", b"esx01/gnu.log\0", tarfile.GNUTYPE_LONGNAME) + member("x", hostd()),
        member("esx01/hostd.1.gz", gzip.compress(hostd())),
        member("esx01/hostd.2.zst", zst(hostd())),
        member("esx01/inner.tgz", tgz({GOOD: vmkernel()})),
        member("esx01/s.log", b"", tarfile.GNUTYPE_SPARSE),
    ]
    hostile = (b"\xff", b"\0", b"9" * 12, struct.pack(">Q", 1 << 63), b"\x80" + b"\xff" * 11)
    for _ in range(count):
        content = bytearray(b"".join(chance.sample(parts, chance.randint(1, 6))) + END)
        for _ in range(chance.randint(0, 8)):
            at = chance.randrange(len(content))
            # Half of the changes are in header fields.
            if chance.random() < 0.5:
                at = at // 512 * 512 + chance.choice((0, 100, 124, 136, 148, 156, 257, 345, 482))
            match chance.randrange(4):
                case 0:
                    piece = chance.choice(hostile)
                    content[at : at + len(piece)] = piece
                case 1:
                    del content[at : at + chance.randint(1, 600)]
                case 2:
                    content[at:at] = content[at : at + chance.randint(1, 600)]
                case 3:
                    content[at : at + 1] = bytes([chance.randrange(256)])
            # A header with a wrong checksum is skipped, so repair some.
            start = min(at, len(content)) // 512 * 512
            block = content[start : start + 512]
            if len(block) == 512 and block[257:262] == b"ustar" and chance.random() < 0.8:
                total = sum(block[:148]) + sum(block[156:]) + 256
                content[start + 148 : start + 156] = b"%06o\0 " % total
        packed = bytes(content)
        if chance.random() < 0.5:
            packed = chance.choice((gzip.compress, zst, bz2.compress, lzma.compress))(packed)
            if chance.random() < 0.5:
                broken = bytearray(packed)
                for _ in range(chance.randint(1, 3)):
                    broken[chance.randrange(4, len(broken))] ^= 1 << chance.randrange(8)
                packed = bytes(broken[: chance.randint(5, len(broken))])
        yield packed


def zip_mutants(seed: int, count: int) -> Iterator[bytes]:
    """Yield small zip archives with bytes changed, removed, duplicated or cut off."""
    chance = random.Random(seed)
    files = {
        GOOD: vmkernel(),
        "esx01/hostd.1.gz": gzip.compress(hostd()),
        "esx01/inner.tgz": tgz({GOOD: vmkernel()}),
        "esx01/inner.zip": zipped({"esx02/vobd.log": vmkernel()}),
        "esx01/e.csv": esxtop(),
    }
    for _ in range(count):
        names = chance.sample(list(files), chance.randint(1, len(files)))
        method = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        content = bytearray(zipped({name: files[name] for name in names}, method))
        for _ in range(chance.randint(0, 6)):
            at = chance.randrange(len(content))
            # Half of the changes are in headers and in the list of members.
            if chance.random() < 0.5:
                heads = [at for at in range(len(content)) if content[at : at + 2] == b"PK"]
                at = min(chance.choice(heads) + chance.randint(4, 45), len(content) - 1)
            match chance.randrange(3):
                case 0:
                    piece = chance.choice((b"\xff\xff\xff\xff", b"\0\0", b"\x7f", b"PK\5\6"))
                    content[at : at + len(piece)] = piece
                case 1:
                    content[at] ^= 1 << chance.randrange(8)
                case 2 if len(content) > 100:
                    del content[at : at + chance.randint(1, 20)]
        yield bytes(content)


def test_no_mutant_of_an_archive_breaks_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    read = 0
    for content in chain(mutants(seed=17, count=150), zip_mutants(seed=19, count=150)):
        path.write_bytes(content)
        with plan([path], limits=SMALL) as what:
            assert unpacked_bytes(what) <= SMALL.most_bytes(len(content))
            assert what.files or what.problems
            unforeseen = [each for each in what.problems if "cannot be read (" in each.sentence]
            assert unforeseen == []
            for file in what.files:
                reading = Reading(file, "r1")
                for messages in reading:
                    read += len(messages)
                assert reading.problem is None or "ended early (" not in reading.problem.sentence
    assert read > 500
