"""A session with a vCenter: allowed methods, errors, and retries."""

from __future__ import annotations

import hashlib
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch.ingest.vcenter.session import (
    Address,
    AwayError,
    Credentials,
    FileGoneError,
    FilePlace,
    NotReadingError,
    Part,
    Session,
    StoppedError,
    UnreadableError,
    VCenterError,
    address_from,
    credentials_from,
)
from tests.vcenter.simulator import PASSWORD, USER, Simulator


@pytest.fixture(scope="module")
def vcenter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with Simulator(tmp_path_factory.mktemp("vcenter")) as made:
        yield made


@pytest.fixture
def session(vcenter: Simulator) -> Iterator[Session]:
    made = Session(vcenter.address, vcenter.credentials, patience_s=20)
    yield made
    made.close()


def place(vcenter: Simulator, vm: str, name: str) -> FilePlace:
    return FilePlace("lab", vcenter.log(vm).parent.parent.name, f"{vm}/{name}")


def test_a_session_reads_and_refuses_everything_else(vcenter: Simulator, session: Session) -> None:
    root = session.content.rootFolder
    assert root.name == "Datacenters"
    with pytest.raises(NotReadingError, match="must not call CreateFolder"):
        root.CreateFolder("new")
    with pytest.raises(NotReadingError, match="Destroy_Task"):
        root.Destroy_Task()
    assert vcenter.called() <= {"RetrieveServiceContent", "Login", "Logout", "Fetch"}


def test_only_the_requested_part_of_a_file_is_read(vcenter: Simulator, session: Session) -> None:
    vcenter.log("app0001").write_bytes(b"0123456789")
    log = place(vcenter, "app0001", "vmware.log")
    assert session.read_file(log, 0, 4) == Part(b"0123", 10)
    assert session.read_file(log, 4, 100) == Part(b"456789", 10)
    assert session.read_file(log, 10, 100) == Part(b"", 10)
    assert session.read_file(log, 11, 100) == Part(b"", 10)
    assert "vmware.log" in session.list_folder(place(vcenter, "app0001", ""))
    with pytest.raises(FileGoneError, match=r"\[san-0\d\] app0001/vmware-1.log does not exist"):
        session.read_file(place(vcenter, "app0001", "vmware-1.log"), 0, 4)


def test_an_unreadable_datastore_is_an_error(vcenter: Simulator, session: Session) -> None:
    log = place(vcenter, "app0001", "vmware.log")
    vcenter.take_away(log.datastore)
    with pytest.raises(UnreadableError, match=r"Cannot read .* answered 500"):
        session.read_file(log, 0, 4)
    vcenter.give_back(log.datastore)


def test_an_expired_session_is_renewed(vcenter: Simulator, session: Session) -> None:
    root = session.content.rootFolder
    vcenter.log("app0001").write_bytes(b"0123456789")
    vcenter.end_sessions()
    assert session.read_file(place(vcenter, "app0001", "vmware.log"), 0, 4) == Part(b"0123", 10)
    assert session.logins == 2
    assert root.name == "Datacenters"


def test_threads_whose_session_expired_log_in_only_once(
    vcenter: Simulator, session: Session
) -> None:
    vcenter.log("app0001").write_bytes(b"0123456789")
    log = place(vcenter, "app0001", "vmware.log")
    session.read_file(log, 0, 4)
    vcenter.end_sessions()
    threads = [threading.Thread(target=session.read_file, args=(log, 0, 4)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert session.logins == 2


def test_a_busy_vcenter_is_retried_with_growing_waits(vcenter: Simulator, session: Session) -> None:
    name = session.content.rootFolder
    vcenter.be_busy(3)
    began = time.monotonic()
    assert name.name == "Datacenters"
    assert session.refusals == 3
    assert time.monotonic() - began > (0.5 + 1 + 2) / 2


def test_a_vcenter_that_stays_away_is_an_error_after_the_wait(vcenter: Simulator) -> None:
    session = Session(vcenter.address, vcenter.credentials, patience_s=1)
    vcenter.be_busy(100)
    with pytest.raises(AwayError, match="does not answer: 503"):
        session.content  # noqa: B018
    vcenter.be_busy(0)


def test_a_waiting_call_can_be_stopped(vcenter: Simulator) -> None:
    stop = threading.Event()
    session = Session(replace(vcenter.address, port=1), vcenter.credentials, stop=stop)
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(StoppedError):
        session.content  # noqa: B018


def test_a_wrong_password_is_an_error_at_once(vcenter: Simulator) -> None:
    session = Session(vcenter.address, Credentials(USER, "wrong"))
    with pytest.raises(VCenterError, match="rejected the user reader or the password"):
        session.content  # noqa: B018


def test_a_certificate_must_be_trusted_or_match_the_thumbprint(vcenter: Simulator) -> None:
    plain = Address(vcenter.address.host, vcenter.address.port)
    with pytest.raises(
        VCenterError, match="STUNWATCH_VCENTER_CA_FILE to the certificate of its authority"
    ):
        Session(plain, vcenter.credentials).content  # noqa: B018
    pem = Path(str(vcenter.address.ca_file)).read_text()
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.partition("-----BEGIN PRIV")[0]))
    known = Session(replace(plain, thumbprint=digest.hexdigest()), vcenter.credentials)
    assert known.content.rootFolder.name == "Datacenters"
    other = Session(replace(plain, thumbprint="ab" * 32), vcenter.credentials)
    with pytest.raises(VCenterError, match=f"SHA-256 is {digest.hexdigest()}"):
        other.content  # noqa: B018


def test_an_address_is_read_from_the_environment(tmp_path: Path) -> None:
    thumbprint = ":".join(["AB"] * 32)
    environment = {
        "STUNWATCH_VCENTER": "vcenter.lab.example:8443",
        "STUNWATCH_VCENTER_THUMBPRINT": thumbprint,
        "STUNWATCH_VCENTER_CA_FILE": str(tmp_path / "ca.pem"),
    }
    (tmp_path / "ca.pem").touch()
    assert address_from(environment) == Address(
        "vcenter.lab.example", 8443, tmp_path / "ca.pem", "ab" * 32
    )
    assert str(address_from({"STUNWATCH_VCENTER": "vcenter.lab.example"})) == "vcenter.lab.example"


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "No vCenter given"),
        ({"STUNWATCH_VCENTER": "https://vc/sdk"}, "Set it to the vCenter's name"),
        (
            {"STUNWATCH_VCENTER": "vc", "STUNWATCH_VCENTER_THUMBPRINT": "ab:cd"},
            "64 hex digits",
        ),
        (
            {"STUNWATCH_VCENTER": "vc", "STUNWATCH_VCENTER_CA_FILE": "/nowhere.pem"},
            "/nowhere.pem, which does not exist",
        ),
    ],
)
def test_an_invalid_address_is_an_error(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(VCenterError, match=sentence):
        address_from(environment)


def test_credentials_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    environment = {"STUNWATCH_VCENTER_USER": USER, "STUNWATCH_VCENTER_PASSWORD": PASSWORD}
    assert credentials_from(environment) == Credentials(USER, PASSWORD)
    file = tmp_path / "credentials"
    file.write_text(f"{USER}\n{PASSWORD}\n")
    file.chmod(0o600)
    assert credentials_from({"STUNWATCH_VCENTER_CREDENTIALS": str(file)}) == Credentials(
        USER, PASSWORD
    )


def test_credentials_that_others_may_read_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    environment = {"STUNWATCH_VCENTER_CREDENTIALS": str(file)}
    with pytest.raises(VCenterError, match=r"Cannot read .*: no such file"):
        credentials_from(environment)
    file.write_text(f"{USER}\n{PASSWORD}\n")
    file.chmod(0o640)
    with pytest.raises(VCenterError, match=f"`chmod 600 {file}`"):
        credentials_from(environment)
    file.chmod(0o600)
    file.write_text(f"{USER}\n")
    with pytest.raises(VCenterError, match="two lines"):
        credentials_from(environment)
    with pytest.raises(VCenterError, match="No vCenter user given"):
        credentials_from({"STUNWATCH_VCENTER_USER": USER})


def test_a_password_is_never_shown() -> None:
    assert PASSWORD not in repr(Credentials(USER, PASSWORD))
