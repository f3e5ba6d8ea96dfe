"""A copy gives the events of its bundle, and contains no name in contents, paths or headers."""

from __future__ import annotations

import gzip
import io
import lzma
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.anonymising.bundle import anonymise
from stunwatch.anonymising.pseudonyms import Pseudonyms
from stunwatch.cli.demo import INCIDENT
from stunwatch.errors import UserError
from stunwatch.ingest.replay import Options, plan
from stunwatch.simulation.scenarios import ScenarioSimulation, write
from tests.anonymising.comparison import KEY, copied, differences
from tests.corpus.cases import HOST as HOST_OF_CORPUS
from tests.corpus.cases import cases, export

HOST, VM, DATASTORE = "quokka07.zirconia.test", "payroll prod (1)", "Zephyr Gold"
NAMES = ("quokka07", "zirconia", "payroll", "zephyr", "wilhelmina", "hunter2", "gzipped-quokka07")
NAA = "60060160f1e2d3c4b5a69788796a5b4c"
ROOT = f"esx-{HOST}-2024-05-06--07.08-2101234"
UNSTUN = "2024-05-06T07:08:{:02d}.123Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 4821100 us"
MEMBERS = {
    f"{ROOT}/var/run/log/vmkernel.log": "\n".join(
        f'2024-05-06T07:08:{second:02d}.123Z In(182) vmkernel: cpu7:2097345)ScsiDeviceIO: 4176:'
        f' Cmd(0x45d9) 0x28, CmdSN 0x3 from world 2101234 to dev "naa.{NAA}" failed H:0x0 D:0x8'
        " P:0x0"
        for second in range(10, 30)
    ),
    f"{ROOT}/var/run/log/hostd.0.gz": f"2024-05-06T07:08:09.123Z In(166) Hostd[2100917]:"
    rf" [Originator@6876 sub=Solo user=vpxuser:ZIRCONIA\wilhelmina] Event 7 : {VM} on {HOST}",
    f"{ROOT}/var/run/log/shell.log": "2024-05-06T07:08:09.123Z In(14) shell[2101]: [wilhelmina]:"
    " esxcli system account add -i w -p hunter2",
    f"{ROOT}/vmfs/volumes/{DATASTORE}/{VM}/vmware.log": "\n".join(
        UNSTUN.format(second) for second in (31, 45)
    ),
    f"{ROOT}/json/localcli_storage-vmfs-extent-list.json": orjson.dumps([{
        "Volume Name": DATASTORE, "VMFS UUID": "5a1b2c3d-4e5f6071-8293-a4b5c6d7e8f9",
        "Extent Number": 0, "Device Name": f"naa.{NAA}", "Partition": 1, "Owner": "wilhelmina",
    }]).decode(),
    f"{ROOT}/commands/esxcfg-info_-a.txt": f"Serial of {HOST}: hunter2",
    f"{ROOT}/etc/vmware/esx.conf": '/resourceGroups/version = "wilhelmina"',
    f"{ROOT}/esxtop/quokka07.csv": '"(PDH-CSV 4.0) (Quokka Time)(-60)",'
    rf'"\\{HOST}\Physical Disk SCSI Device(naa.{NAA})\Average Driver MilliSec/Command",'
    rf'"\\{HOST}\Virtual Disk({VM}:scsi0:0)\Average MilliSec/Read",'
    rf'"\\{HOST}\Group Cpu(12:{VM})\% Used"' + '\n"05/06/2024 07:08:09","41.5","12.5","3"',
}  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / f"{ROOT}.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in MEMBERS.items():
            content = f"{text}\n".encode()
            if name.endswith(".gz"):
                packed = io.BytesIO()
                with gzip.GzipFile("gzipped-quokka07.log", "wb", fileobj=packed) as stream:
                    stream.write(content)
                content = packed.getvalue()
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1_715_000_000
            member.uname, member.gname, member.uid = "wilhelmina", "zirconia", 4711
            archive.addfile(member, io.BytesIO(content))
    return path


def everything_in(path: Path) -> bytes:
    """Return the archive's headers and contents, with compressed members unpacked."""
    data = gzip.decompress(path.read_bytes())
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            if member.name.endswith(".gz"):
                packed = content.read()
                data += packed[:64] + gzip.decompress(packed)
    return data


def test_no_name_remains_in_contents_paths_and_headers(bundle: Path, tmp_path: Path) -> None:
    _, summary = copied(bundle, tmp_path)
    data = everything_in(tmp_path / "copy.tgz").lower() + path_bytes(tmp_path / "copy.tgz")
    for name in (*NAMES, NAA[7:], "5a1b2c3d", "quokka time", "4711\0"):
        assert name.encode() not in data, name
    with tarfile.open(tmp_path / "copy.tgz") as archive:
        for member in archive:
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
    assert summary.left_out == [
        f"{bundle}!{ROOT}/commands/esxcfg-info_-a.txt",
        f"{bundle}!{ROOT}/etc/vmware/esx.conf",
    ]


def path_bytes(path: Path) -> bytes:
    with tarfile.open(path) as archive:
        return "\n".join(archive.getnames()).lower().encode()


@pytest.mark.parametrize("is_shifted", [False, True])
def test_the_copy_of_a_bundle_gives_the_same_events(
    is_shifted: bool, bundle: Path, tmp_path: Path
) -> None:
    copy, summary = copied(bundle, tmp_path, is_shifted=is_shifted)
    assert not summary.problems
    assert differences(bundle, copy, is_shifted=is_shifted) == {}


@pytest.mark.integration
def test_the_copy_of_the_demo_gives_the_same_events(tmp_path: Path) -> None:
    copy, _ = copied(INCIDENT, tmp_path, is_shifted=True)
    assert differences(INCIDENT, copy, is_shifted=True) == {}


@pytest.mark.slow
def test_the_copy_of_a_scenario_gives_the_same_events(tmp_path: Path) -> None:
    original = tmp_path / "original"
    write(ScenarioSimulation("bad_host", 29, chatter=0.02), original)
    copy, _ = copied(original, tmp_path, is_shifted=True)
    assert differences(original, copy, is_shifted=True) == {}
    shown = b"".join(path.read_bytes() for path in copy.rglob("*") if path.is_file())
    site = b"sim.example"
    assert any(site in path.read_bytes() for path in original.rglob("*.log"))
    assert site not in shown


@pytest.mark.slow
def test_the_copy_of_the_corpus_gives_the_same_events_without_names(tmp_path: Path) -> None:
    original = tmp_path / "original"
    export(original, cases())
    copy, _ = copied(original, tmp_path, is_shifted=True)
    assert differences(original, copy, is_shifted=True) == {}
    shown = b"".join(path.read_bytes() for path in copy.rglob("*") if path.is_file()).lower()
    for name in (HOST_OF_CORPUS, "lab.example", "gold-01", "web01"):
        assert name.encode() not in shown


def test_the_copy_has_the_same_layout(bundle: Path, tmp_path: Path) -> None:
    copied(bundle, tmp_path)
    host = Pseudonyms(KEY).name("host", HOST)
    root = f"esx-{host}-2024-05-06--07.08-{Pseudonyms(KEY).decimal('2101234')}"
    with tarfile.open(tmp_path / "copy.tgz") as archive:
        names = archive.getnames()
    folder = f"vmfs/volumes/{Pseudonyms(KEY).name('ds', DATASTORE)}"
    assert f"{root}/var/run/log/hostd.0.gz" in names
    assert f"{root}/{folder}/{Pseudonyms(KEY).name('vm', VM)}/vmware.log" in names
    assert f"{root}/json/localcli_storage-vmfs-extent-list.json" in names
    assert len(names) == 6


def archived(path: Path, members: dict[str, bytes]) -> bytes:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path.read_bytes()


KERNEL = f"{MEMBERS[f'{ROOT}/var/run/log/vmkernel.log']}\n".encode()
VM_LOG = f"{UNSTUN.format(31)}\n".encode()


@pytest.mark.parametrize(
    ("name", "members", "options"),
    [
        ("vmkernel.log", None, Options()),
        ("vmkernel.log", None, Options(host="quokka07")),
        ("vmware.log", None, Options(vm="payroll", datastore="Zephyr Gold")),
        ("quokka07.tgz", {"var/log/vmkernel.log": KERNEL}, Options()),
        ("case.tgz", {"quokka07/var/log/vmkernel.log": KERNEL}, Options()),
        ("case.tgz", {"case/quokka07/vmkernel.log": KERNEL}, Options()),
        ("case.tgz", {"logs/vmkernel.log": KERNEL}, Options()),
        ("case.tgz", {"vmkernel.log": KERNEL}, Options()),
        ("case.tgz", {"device/var/log/vmkernel.log": KERNEL}, Options()),
        ("esx-quokka07-2024-05-06.tgz", {"var/log/vmkernel.log": KERNEL}, Options()),
        ("case.tgz", {"vmfs/volumes/storage/a/host/vmware.log": VM_LOG}, Options()),
        ("case.tgz", {"q/vmfs/volumes/Zephyr Gold/pay (1)/vmware-3.log": VM_LOG}, Options()),
        ("case.tgz", {"./q7/vmfs/volumes/1/2/vmware.log": VM_LOG}, Options()),
    ],
    ids=str,
)
def test_host_vm_and_datastore_of_a_log_are_found_in_the_copy(
    name: str, members: dict[str, bytes] | None, options: Options, tmp_path: Path
) -> None:
    path = tmp_path / name
    if members is None:
        path.write_bytes(VM_LOG if name.startswith("vmware") else KERNEL)
    else:
        archived(path, members)
    assert found_in(tmp_path, path, options) == found_in(tmp_path, path, options, is_copy=True)


def test_logs_in_nested_archives_keep_their_hosts(tmp_path: Path) -> None:
    inner = archived(tmp_path / "inner.tgz", {"var/log/vmkernel.log": KERNEL})
    path = tmp_path / "all.tgz"
    archived(path, {"x/quokka07.tgz": inner, "x/esx-quokka08-2024-05-06.tgz": inner})
    found = found_in(tmp_path, path, Options(), is_copy=True)
    assert found == found_in(tmp_path, path, Options())
    assert len(found) == 2


def test_files_that_vm_support_split_are_joined(bundle: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with tarfile.open(bundle) as packed:
        packed.extractall(whole, filter="data")
    split = tmp_path / "split"
    for path in [each for each in whole.rglob("*") if each.is_file()]:
        fragment = split / path.relative_to(whole)
        fragment.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        for number in range(2):
            part = content[number * 100 : (number + 1) * 100 if number < 1 else None]
            fragment.with_name(f"{fragment.name}.FRAG-{number:05}").write_bytes(part)
    names = []
    for folder in (whole, split):
        anonymise(folder, tmp_path / f"{folder.name}.tgz", Pseudonyms(KEY))
        with tarfile.open(tmp_path / f"{folder.name}.tgz") as copy:
            names.append({name.partition("/")[2] for name in copy.getnames()})
    assert names[0] == names[1]


def test_logs_of_windows_users_are_anonymised(tmp_path: Path) -> None:
    """A zip archive with a log in UTF-16 and one packed with xz."""
    path = tmp_path / "case.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "quokka07\\vmkernel.log", b"\xff\xfe" + KERNEL.decode().encode("utf-16-le")
        )
        archive.writestr("quokka08/vmkernel.1.log.xz", lzma.compress(KERNEL))
    found = found_in(tmp_path, path, Options(), is_copy=True)
    assert found == found_in(tmp_path, path, Options())
    assert len(found) == 2
    with tarfile.open(tmp_path / "copy" / "copy.tgz") as copy:
        contents = {Path(each.name).name: copy.extractfile(each).read() for each in copy}  # type: ignore[union-attr]
    assert lzma.decompress(contents["vmkernel.1.log.xz"]) == contents["vmkernel.log"]


def found_in(
    folder: Path, path: Path, options: Options, *, is_copy: bool = False
) -> list[tuple[str | None, ...]]:
    """Return kind, host, datastore and VM of every log, with pseudonyms."""
    pseudonyms = Pseudonyms(KEY)
    if is_copy:
        output = folder / "copy" / "copy.tgz"
        output.parent.mkdir()
        anonymise(path, output, pseudonyms, options=options)
        path, options = output, Options()

    def made(kind: str, name: str | None) -> str | None:
        return name if is_copy or name is None else pseudonyms.name(kind, name)

    with plan([path], options) as what:
        return sorted(
            (each.kind, made("host", each.host), made("ds", each.datastore), made("vm", each.vm))
            for each in what.files
        )


def test_the_output_is_private_and_does_not_overwrite_a_file(bundle: Path, tmp_path: Path) -> None:
    output = tmp_path / "copy.tgz"
    anonymise(bundle, output, Pseudonyms(KEY))
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    with pytest.raises(UserError, match="already exists"):
        anonymise(bundle, output, Pseudonyms(KEY))
    anonymise(bundle, output, Pseudonyms(KEY), is_forced=True)
    assert list(tmp_path.iterdir()) == [output]


def run(*words: object) -> Any:
    return CliRunner().invoke(cli.app, ["anonymise", *map(str, words)])


def test_bundles_with_one_key_get_equal_pseudonyms_and_the_map_is_private(
    bundle: Path, tmp_path: Path
) -> None:
    key, mapping = tmp_path / "key", tmp_path / "map.jsonl"
    first = run(
        bundle, "--output", tmp_path / "a.tgz", "--key", key, "--map", mapping, "--format", "json"
    )
    again = run(bundle, "--output", tmp_path / "b.tgz", "--key", key)
    other = run(bundle, "--output", tmp_path / "c.tgz")
    assert [first.exit_code, again.exit_code, other.exit_code] == [0, 0, 0], first.output
    a, b, c = (path_bytes(tmp_path / f"{name}.tgz") for name in "abc")
    assert a == b != c
    for path in (key, mapping):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    known = [orjson.loads(line) for line in mapping.read_bytes().splitlines()]
    assert {"kind": "vm", "original": "payroll prod (1"} in [
        {name: each[name] for name in ("kind", "original")} for each in known
    ]
    document = orjson.loads(first.stdout)
    assert document["members"] == 6
    assert document["pseudonyms"]["VMs"] == 1


def test_the_exit_codes_of_the_command(bundle: Path, tmp_path: Path) -> None:
    empty, cut = tmp_path / "empty", tmp_path / "cut.tgz"
    empty.mkdir()
    cut.write_bytes(bundle.read_bytes()[:-40])
    assert run(cut, "--output", tmp_path / "out.tgz").exit_code == 1
    nothing = run(empty, "--output", tmp_path / "none.tgz")
    assert isinstance(nothing.exception, UserError)
    assert "Nothing to anonymise" in str(nothing.exception)
    assert not (tmp_path / "none.tgz").exists()


def test_a_member_path_cannot_leave_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "hostile.tgz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("../../etc/esx01/vmkernel.log")
        content = MEMBERS[f"{ROOT}/var/run/log/vmkernel.log"].encode()
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    anonymise(path, tmp_path / "copy.tgz", Pseudonyms(KEY))
    with tarfile.open(tmp_path / "copy.tgz") as copy:
        assert not any(name.startswith(("/", "..")) for name in copy.getnames())


def test_anonymising_imports_no_optional_packages() -> None:
    heavy = {"pyflink", "confluent_kafka", "matplotlib"}
    code = (
        "import sys, stunwatch.cli.anonymise, stunwatch.anonymising.bundle;"
        f"sys.exit(bool({heavy!r} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
