"""Operations: the user and client that requested what stunned a VM."""

import pytest

from stunwatch.detectors.events import MOST_VERSION, revision, weighed_revision
from stunwatch.detectors.operations.asking import client_of, user_of, with_asker

HEAD = "2024-05-06T07:08:08.901Z In(166) Hostd[21]: [Originator@6876 sub=Vimsvc opID=4e-a7-01bc{}] "
CREATED = "Task Created : haTask-21-vim.VirtualMachine.createSnapshot-4711"


@pytest.mark.parametrize(
    ("named", "user"),
    [
        (" user=root", "root"),
        (" sid=52c1 user=dcui", "dcui"),
        (" user=vpxuser", "vCenter"),
        (" user=vpxuser:<no user>", "vCenter"),
        (r" user=vpxuser:VSPHERE.LOCAL\vpxd-extension-0f4e2f6c-11", "vCenter"),
        (r" user=vpxuser:LAB\svc backup", r"LAB\svc backup"),
        (' user="root"', "root"),
        ("", ""),
    ],
)
def test_the_user_is_parsed_from_a_host_line(named: str, user: str) -> None:
    record = {"op_id": "4e-a7-01bc", "head": HEAD.format(named), "message": CREATED}
    assert user_of(record) == user


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (HEAD.format(" user=root"), "Task Completed : haTask-21-vim.VirtualMachine.createSnapshot"),
        (HEAD.format(" user=root").replace("In(166)", "In(166)[+]"), CREATED),
        (HEAD.format(""), CREATED + " user=root"),
    ],
)
def test_a_line_without_a_user_gives_none(head: str, message: str) -> None:
    assert user_of({"op_id": "4e-a7-01bc", "head": head, "message": message}) == ""


def test_an_operation_id_of_an_unknown_client_gives_no_client() -> None:
    assert client_of("7f31a0c2") == client_of("4f2a9d1c-77aa-4e-a7-01bc") == ""
    assert with_asker("nightly", "7f31a0c2") == "nightly"
    assert with_asker("", "esxui-3b7d-52c0") == "asked for with the host client"


def test_a_newer_detector_wins_with_the_same_lines_but_not_with_fewer() -> None:
    old, new = (revision(3 << 8, 5, tie, version) for tie, version in ((0xFFFFFFFE, 1), (0, 2)))
    assert old < new < revision(3 << 8, 6, 0, 1)
    old, new = (
        weighed_revision(5, 1, tie, version, is_deleted=is_deleted)
        for tie, version, is_deleted in ((0x3FFFF, 1, True), (0, 2, False))
    )
    assert old < new < weighed_revision(6, 0, 0, 1, is_deleted=False)


def test_the_parts_of_a_revision_are_cut_to_their_widths() -> None:
    most = 1 << 70
    assert revision(most, most, -1, most) == (1 << 64) - 1
    assert weighed_revision(most, most, -1, most, is_deleted=True) == (1 << 64) - 1
    assert MOST_VERSION == 63
