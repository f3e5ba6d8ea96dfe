"""Every command that prints data can print JSON that a program can parse.

ClickHouse is real; Kafka, Superset and vCenter are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from stunwatch import dashboards as superset_bridge
from stunwatch import replaying
from stunwatch.alerts import sending
from stunwatch.audit.events import Comparison
from stunwatch.cli import audit, replay
from stunwatch.ingest.vcenter.collectors import diagnosis
from stunwatch.local import backups, pipeline
from stunwatch.report import contents, page
from tests.alerts.made_incidents import incident
from tests.cli.stand_ins import ESXCLI, LOG, no_kafka
from tests.cli.walked import LEAVES, WALKED
from tests.clickhouse_server import Server
from tests.pipeline import in_this_process

INCIDENT = incident("json", opened_at="2026-03-01T02:00:00.000000Z")

Replace = Callable[[pytest.MonkeyPatch], None]


def nothing(_: pytest.MonkeyPatch) -> None:
    """Replace nothing."""


@dataclass(frozen=True)
class Call:
    """Arguments of a command, what the test replaces, and the expected content of the JSON."""

    words: tuple[str, ...] = ()
    replace: Replace = nothing
    kind: type = dict
    holds: tuple[str, ...] = ()
    """Keys of the document, or of its first item."""
    codes: tuple[int, ...] = (0,)
    environment: dict[str, str] = field(default_factory=dict)


def one_event(patched: pytest.MonkeyPatch) -> None:
    """Replace Kafka with one event whose text contains control characters."""
    no_kafka(patched)
    event = {"event_id": "x", "revision": 1, "run_id": "live", "vm": "a\u001b[2J\u202e\udcffb"}
    message = SimpleNamespace(
        error=lambda: None,
        value=lambda: json.dumps(event).replace("\\udcff", "").encode(),
        topic=lambda: "events.stun",
    )
    consumer = SimpleNamespace(subscribe=lambda _: None, poll=lambda _: message, close=lambda: None)
    patched.setattr("confluent_kafka.Consumer", lambda _: consumer)


def replayed(patched: pytest.MonkeyPatch) -> None:
    outcome = replaying.Outcome("run-1", read=3, stored=3, seconds=1.0)
    patched.setattr(replay, "run", lambda *_: outcome)
    patched.setattr(replay, "events_of", lambda *_: {"stuns": 1})


def accepted(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(sending, "send", lambda *_: "")


def backed_up(patched: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(made_at="2026-11-22T00:00:00Z", rows=7, tables=["stuns"], bytes=9)
    done = SimpleNamespace(backup=made, read_again=2, lost=0)
    patched.setattr(backups, "back_up", lambda *_: made)
    patched.setattr(backups, "restore", lambda *_: done)


def superset(patched: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(files=3, removed=["a chart"])
    patched.setattr(superset_bridge, "apply", lambda _: done)
    patched.setattr(superset_bridge, "pull", lambda _: ["charts/a.yaml"])


def drawn(patched: pytest.MonkeyPatch) -> None:
    """Replace the drawing of the page, which takes ten seconds; tests/report tests it."""
    patched.setattr(page, "render", lambda *_: "<html>")
    patched.setattr(contents, "gather", lambda *_: None)


def compared(patched: pytest.MonkeyPatch) -> None:
    found = audit.Findings(events={"stuns": Comparison(), "sync_cr_countdowns": Comparison()})
    patched.setattr(audit, "examine", lambda *_: found)


CALLS: dict[str, list[Call]] = {
    "status": [
        Call(holds=("is_running", "components"), codes=(3, 4)),
        Call(("--json",), holds=("is_running",), codes=(3, 4)),
    ],
    "sql": [
        Call(("SELECT 1 AS one, toUInt64(1) AS many",), kind=list, holds=("one", "many")),
        Call(("SELECT * FROM stuns",), kind=list),
        Call(("longest_stuns", "--param", "most=3"), kind=list),
        Call(
            ("changes_before_incident", "--param", f"incident={INCIDENT['event_id'][:8]}"),
            kind=list,
        ),
        Call(("--list",), kind=list, holds=("name", "question", "parameters")),
    ],
    "watch": [
        Call(("--most", "1"), one_event, holds=("vm",)),
        Call(("--most", "1", "--json"), one_event, holds=("vm",)),
        Call(
            ("--once",), no_kafka, holds=("incidents", "events", "flow", "blind_spots", "problems")
        ),
    ],
    "report": [
        Call((INCIDENT["event_id"][:8], "--out", "page.html"), drawn, holds=("incident_id", "path"))
    ],
    "incident list": [Call(("--all",), holds=("incidents", "mutes"))],
    "incident show": [Call((INCIDENT["event_id"][:8],), holds=("incident_id", "verdict", "notes"))],
    "audit": [Call((), compared, holds=("is_clean", "events", "files"))],
    "alerts check": [Call(holds=("receivers", "quiet_hours", "mutes"))],
    "alerts test": [Call((), accepted, kind=list, holds=("receiver", "is_accepted"))],
    "change list": [Call(kind=list, holds=("change_id", "changed_at", "kind", "title"))],
    "inventory load": [
        Call((str(ESXCLI), "--host", "esx01"), no_kafka, holds=("sources", "items", "problems"))
    ],
    "replay": [Call((str(LOG),), replayed, holds=("run_id", "lines", "found"))],
    "dashboards apply": [Call((), superset, holds=("files", "removed"))],
    "dashboards pull": [Call((), superset, holds=("changed",))],
    "doctor": [Call(kind=list, holds=("what", "grade", "found", "remedy"), codes=(0, 1))],
    "backup": [Call(("there",), backed_up, holds=("rows", "bytes"))],
    "restore": [Call(("there",), backed_up, holds=("rows", "messages_lost"))],
}
"""How this test calls each command with `--format`."""

WITHOUT_DATA = {
    *("up", "down", "upgrade", "demo", "receive", "simulate", "alerts run"),
    *("collect vmlogs", "collect latency", "collect inventory"),
    *("incident ack", "incident right", "incident wrong", "incident mute", "incident unmute"),
    *("change add", "change remove"),
    "logs",  # a component's own text
}
"""Commands that act, and report on standard error."""

ELSEWHERE = {"triage", "anonymise"}
"""Commands whose own tests parse their JSON."""


@pytest.fixture(scope="module")
def home(server: Server) -> Iterator[dict[str, str]]:
    """Return the environment of a ClickHouse with an incident and a change."""
    settings = server.settings
    server.read([("events.incident", orjson.dumps(INCIDENT))])
    settings.alerts.write_text("receivers:\n  - {name: hook, url: 'json://127.0.0.1:9/secret'}\n")
    environment = settings.environment()
    words = ["change", "add", "--kind", "array", "--title", "5.2.1", "--at", "-2h"]
    assert in_this_process(words, environment).returncode == 0
    yield environment
    settings.alerts.unlink()


def test_every_command_that_prints_data_is_called() -> None:
    assert {*LEAVES} - ELSEWHERE == {*CALLS} | WITHOUT_DATA
    with_format = {
        path for path in LEAVES if any("--format" in each.opts for each in WALKED[path].params)
    }
    assert with_format - ELSEWHERE == {*CALLS}


@pytest.mark.parametrize(
    ("path", "call"), [(path, each) for path, calls in CALLS.items() for each in calls]
)
def test_the_json_of_a_command_can_be_parsed(
    path: str,
    call: Call,
    home: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call.replace(monkeypatch)
    monkeypatch.setattr(pipeline, "alone", lambda _: _Nothing())
    monkeypatch.chdir(tmp_path)
    words = [*path.split(), *call.words]
    if "--json" not in words:
        words += ["--format", "json"]
    done = in_this_process(words, {**home, **call.environment})
    assert done.returncode in call.codes, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, call.kind)
    first = found[0] if isinstance(found, list) and found else found
    assert {*call.holds} <= {*first}
    assert done.stdout.isascii() or path == "sql"


class _Nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_json_keeps_every_character_of_a_log(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_event(monkeypatch)
    done = in_this_process(["watch", "--most", "1", "--format", "json"], home)
    assert json.loads(done.stdout)["vm"] == "a\u001b[2J\u202eb"
    assert "\u001b" not in done.stdout


def test_doctor_prints_json_for_a_host_of_vcenter(monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor --host` connects to a vCenter; tests/vcenter tests it with one."""
    finding = diagnosis.Finding("syslog", "missing", "none", "no line arrives", ())
    monkeypatch.setattr("stunwatch.ingest.vcenter.session.address_from", lambda: None)
    monkeypatch.setattr("stunwatch.ingest.vcenter.session.credentials_from", lambda: None)
    monkeypatch.setattr(
        "stunwatch.ingest.vcenter.session.Session",
        lambda *_, **__: SimpleNamespace(close=lambda: None),
    )
    monkeypatch.setattr(diagnosis, "told", lambda *_: SimpleNamespace(host="esx01"))
    monkeypatch.setattr(diagnosis, "findings", lambda _: [finding])
    done = in_this_process(["doctor", "--host", "esx01", "--format", "json"], {})
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["what"] == "syslog"


def test_empty_results_are_sentences(server: Server, home: dict[str, str]) -> None:
    for table in ("incidents_stored", "changes_stored"):
        server.admin.command(f"TRUNCATE TABLE {table}")
    for words, said in (
        ("incident list", "No incidents.\n"),
        ("change list", "No changes. `stunwatch change add --help` shows how to note one.\n"),
    ):
        assert in_this_process(words.split(), home).stdout == said
    listed = in_this_process(["incident", "list", "--format", "json"], home).stdout
    assert json.loads(listed) == {"incidents": [], "mutes": []}
    old = incident("old", state="closed", closed_at="2026-03-01T03:00:00.000000Z")
    server.read([("events.incident", orjson.dumps(old))])
    assert in_this_process(["incident", "list"], home).stdout == (
        "No incidents in the last day. Older ones: 1; list them: `stunwatch incident list --all`.\n"
    )
