"""Outages of NFS servers: behaviour that the cases, with final rows only, do not cover."""

import pickle
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.nfs_servers.tracker import Tracker
from tests.detectors.cases import Event, Record, final_rows, progress_after, run

NFS_SERVERS = detector("nfs_servers")
NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
UUID = "5ff2c4a9-5ab21f8c"
MOUNT = f"192.0.2.10 mount point /vol/ds1, mounted as {UUID}-0000-000000000000"


def line(after_us: int, message: str, **fields: Any) -> Record:
    """Return a record of one host, `after_us` after noon."""
    return {
        "kind": "line",
        "source": "syslog",
        "host": "esx01.lab.example",
        "head": f"{after_us} ",
        "message": message,
        "run_id": "case",
        "event_time_us": NOON_US + after_us,
        "time_quality": "exact",
        **fields,
    }


def change(after_us: int, is_lost: bool, source: str = "kernel") -> Record:
    verb = "Lost" if is_lost else "Restored"
    by_vobd = ("problem", "disconnect") if is_lost else ("clear", "restored")
    message = {
        "kernel": f'NFS: 322: {verb} connection to the server {MOUNT} ("nfs-gold")',
        "event": f"[vmfsCorrelator] 1us: [esx.{by_vobd[0]}.vmfs.nfs.server.{by_vobd[1]}]"
        f" 192.0.2.10 /vol/ds1 {UUID}-0000-000000000000 nfs-gold",
        "hostd": f"Event 812 : {verb} connection to server {MOUNT} (nfs-gold).",
    }
    return line(after_us, message[source])


def rows_of(*lines: Record) -> list[Event]:
    return final_rows(run(NFS_SERVERS, lines))


@pytest.mark.parametrize(
    ("end_of_line", "datastore"),
    [
        (f'as {UUID}-0000-000000000000 ("nfs gold (1)")', "nfs gold (1)"),
        (f'as {UUID}-0000-000000000000 ("nfs gold', ""),
        (f"as {UUID}-0000-000000000000", ""),
        (f"as {UUID}-0000-0000", ""),
        (f"as {UUID}", ""),
    ],
)
def test_a_line_that_is_cut_after_the_identifier_of_its_mount_counts(
    end_of_line: str, datastore: str
) -> None:
    words = "WARNING: NFS: 322: Lost connection to the server 192.0.2.10 mount point /vol/ds1,"
    [row] = rows_of(line(0, f"{words} mounted {end_of_line}"))
    assert (row["datastore_uuid"], row["datastore"]) == (UUID, datastore)


@pytest.mark.parametrize(
    "end_of_line", ["", " mount point /vol/ds1", " mount point /vol/ds1, mounted as 5ff2c4a9-5ab2"]
)
def test_a_line_that_is_cut_before_the_identifier_of_its_mount_does_not_count(
    end_of_line: str,
) -> None:
    words = "WARNING: NFS: 322: Lost connection to the server 192.0.2.10"
    assert not rows_of(line(0, f"{words}{end_of_line}"))


def test_a_continuation_line_does_not_count() -> None:
    lost = change(0, is_lost=True)
    assert not rows_of({**lost, "head": "2024-05-06T07:08:09.123Z In(166)[+] Hostd[2098914]: "})


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 400).map(lambda steps: steps * 5 * SECOND_US),
            st.booleans(),
            st.sampled_from(["kernel", "event", "hostd"]),
        ),
        min_size=1,
        max_size=12,
        unique=True,
    ),
    st.integers(0, 1_000),
)
def test_the_rows_do_not_depend_on_the_order_of_arrival(
    changes: list[tuple[int, bool, str]], seed: int
) -> None:
    lines = [change(*each) for each in sorted(changes)]
    end = progress_after(lines)
    shuffled = Random(seed).sample(lines, len(lines))
    assert rows_of(*shuffled, end) == rows_of(*lines, end)


def test_a_loss_that_is_repeated_for_hours_is_one_outage_with_little_state() -> None:
    tracker, written = Tracker(), set()
    for second in range(7200):
        record = change(second * SECOND_US, is_lost=True)
        for event in (*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)):
            written.add(event.event_id)
    assert len(written) == 1
    assert len(pickle.dumps(tracker)) < 300_000


def test_a_server_that_comes_back_after_days_ends_its_outage() -> None:
    between = [line(hour * HOUR_US, "nothing of interest") for hour in range(1, 72)]
    [row] = rows_of(change(0, is_lost=True), *between, change(3 * DAY_US, is_lost=False))
    assert row["ended_at"] == "2012-03-11T12:00:00.000000Z"
    assert row["duration_ms"] == 3 * 24 * 3600 * 1000


def test_an_outage_that_does_not_end_is_dropped_from_the_state_after_a_week() -> None:
    tracker, record = Tracker(), change(0, is_lost=True)
    assert [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]
    list(tracker.advance_time(NOON_US + 6 * DAY_US))
    assert tracker.groups
    while (timer_us := tracker.next_timer_us) is not None:
        list(tracker.advance_time(timer_us))
    assert not tracker.groups
