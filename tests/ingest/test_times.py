"""Conversion of timestamps to UTC text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.ingest.times import MOST_ANCHORS, Stamps, UptimeClock

WRITTEN_AT = datetime(2012, 1, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2012-03-04T05:06:07Z", "2012-03-04T05:06:07Z"),
        ("2012-03-04T05:06:07.8Z", "2012-03-04T05:06:07.8Z"),
        ("2012-03-04T05:06:07.890123456Z", "2012-03-04T05:06:07.890123456Z"),
        ("2012-03-04T05:06:07.891+02:00", "2012-03-04T03:06:07.891Z"),
        ("2012-03-04T05:06:07.891+0530", "2012-03-03T23:36:07.891Z"),
        ("2012-12-31T23:59:59-00:01", "2013-01-01T00:00:59Z"),
        ("2012-03-04 05:06:07,891", "2012-03-04T05:06:07.891Z"),
        ("2012-03-04 05:06:07:891", "2012-03-04T05:06:07.891Z"),
        ("2012-03-04 05:06:07.891Z", "2012-03-04T05:06:07.891Z"),
        ("2012-03-04T05:06:07,891Z", "2012-03-04T05:06:07.891Z"),
        ("2012-02-29T00:00:00Z", "2012-02-29T00:00:00Z"),
    ],
)
def test_a_timestamp_with_a_date_keeps_its_fraction_digits(stamp: str, expected: str) -> None:
    assert Stamps(written_at=WRITTEN_AT).event_time(stamp) == expected


@pytest.mark.parametrize(
    "stamp",
    [
        "2012-13-04T05:06:07Z",
        "2013-02-29T05:06:07Z",
        "2012-03-04T24:06:07Z",
        "2012-03-04T05:60:07.1Z",
        "1969-03-04T05:06:07Z",
        "2200-03-04T05:06:07Z",
        "0000-00-00T00:00:00Z",
        "9999-12-31T23:59:59-23:00",
        "2012-03-04T05:06:07+99:00",
        "2012-03-04T05:06:07+02:99",
        "Feb 30 05:06:07",
        "Mar 00 05:06:07",
        "Mar 04 25:06:07.123",
        "Mai 04 05:06:07",
    ],
)
def test_an_impossible_time_gives_none(stamp: str) -> None:
    stamps = Stamps(written_at=WRITTEN_AT)
    assert stamps.event_time(stamp) is None
    assert stamps.event_time(stamp) is None  # also from the cache


@pytest.mark.parametrize(
    ("stamp", "burst", "expected"),
    [
        ("2015-09-10T20:45:47-08:00", "0.002", "2015-09-11T04:45:47.002Z"),
        ("2015-09-10T20:45:59Z", "1.250", "2015-09-10T20:46:00.250Z"),
        ("2015-12-31T23:59:59Z", "61.0", "2016-01-01T00:01:00.0Z"),
        ("2015-09-10T20:45:47.99Z", "0.010", "2015-09-10T20:45:48.000Z"),
    ],
)
def test_the_burst_is_added_to_the_timestamp(stamp: str, burst: str, expected: str) -> None:
    assert Stamps(written_at=WRITTEN_AT).event_time(stamp, burst) == expected


def test_a_timestamp_without_a_zone_is_in_the_given_zone() -> None:
    stamps = Stamps(written_at=WRITTEN_AT, zone=ZoneInfo("Europe/Vienna"))
    assert stamps.event_time("2011-07-04 05:06:07,891") == "2011-07-04T03:06:07.891Z"
    assert stamps.event_time("Jul 04 05:06:07.891") == "2011-07-04T03:06:07.891Z"
    assert stamps.event_time("Dec  4 05:06:07") == "2011-12-04T04:06:07Z"
    assert stamps.event_time("2011-07-04T05:06:07Z") == "2011-07-04T05:06:07Z"


def test_december_in_a_file_written_in_january_is_last_year() -> None:
    stamps = Stamps(written_at=WRITTEN_AT)
    found = [
        stamps.event_time(stamp)
        for stamp in ("Dec 31 23:59:59", "Jan 01 00:00:00", "Jan 04 04:05:00", "Jan 04 04:06:00")
    ]
    assert found == [
        "2011-12-31T23:59:59Z",
        "2012-01-01T00:00:00Z",
        "2012-01-04T04:05:00Z",  # a day after the file was written: the host's clock is ahead
        "2011-01-04T04:06:00Z",
    ]


def test_a_leap_day_without_a_year_gets_the_last_leap_year() -> None:
    assert Stamps(written_at=WRITTEN_AT).event_time("Feb 29 01:02:03") == "2008-02-29T01:02:03Z"


def test_a_given_year_is_the_year_of_the_first_timestamp() -> None:
    stamps = Stamps(written_at=WRITTEN_AT, year=2006)
    found = [
        stamps.event_time(stamp)
        for stamp in (
            "Nov 30 01:02:03",
            "Dec 31 23:59:59.999",
            "Jan 01 00:00:00",
            "Dec 31 23:59:59",
        )
    ]
    assert found == [
        "2006-11-30T01:02:03Z",
        "2006-12-31T23:59:59.999Z",
        "2007-01-01T00:00:00Z",
        "2006-12-31T23:59:59Z",  # out of order
    ]


def test_a_drop_of_seven_months_increments_the_year() -> None:
    stamps = Stamps(written_at=WRITTEN_AT, year=2006)
    assert stamps.event_time("Aug 30 01:02:03") == "2006-08-30T01:02:03Z"
    assert stamps.event_time("Jan 30 01:02:03") == "2007-01-30T01:02:03Z"
    assert stamps.event_time("Sep 30 01:02:03") == "2007-09-30T01:02:03Z"


def test_a_live_source_gets_the_new_year_after_new_year() -> None:
    stamps = Stamps(written_at=datetime(2011, 12, 31, 23, tzinfo=UTC))
    assert stamps.event_time("Dec 31 23:00:00") == "2011-12-31T23:00:00Z"
    assert stamps.event_time("Jan 03 23:00:00") == "2011-01-03T23:00:00Z"
    stamps.move_on(datetime(2012, 1, 3, 23, tzinfo=UTC))
    assert stamps.event_time("Jan 03 23:00:00") == "2012-01-03T23:00:00Z"


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2198, 12, 31)),
    st.integers(-14 * 60, 14 * 60),
)
def test_timestamps_in_any_zone_give_the_same_time(moment: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    stamp = moment.replace(tzinfo=UTC).astimezone(zone).isoformat(timespec="microseconds")
    found = Stamps(written_at=WRITTEN_AT).event_time(stamp)
    assert found == f"{moment.isoformat(timespec='microseconds')}Z"


COUNT_DOWN = [
    ("27", "110:04:49:19.318"),
    ("28", "110:04:49:20.266"),
    ("29", "110:04:49:21.227"),
    ("30", "110:04:49:22.213"),
    ("31", "110:04:49:23.213"),
]


def test_spans_between_lines_are_those_of_the_uptime() -> None:
    clock = UptimeClock()
    times = [clock.event_time("a", f"2010-04-27T10:16:{s}Z", up) for s, up in COUNT_DOWN]
    assert (times[0], times[-1]) == ("2010-04-27T10:16:27.318Z", "2010-04-27T10:16:31.213Z")


def test_timestamp_and_uptime_may_change_seconds_at_different_moments() -> None:
    clock = UptimeClock()
    assert clock.event_time("a", "2010-04-27T10:14:50Z", "84:18:41:26.487").endswith(":50.487Z")
    # 47 ms later, although the timestamp is a second later
    assert clock.event_time("a", "2010-04-27T10:14:51Z", "84:18:41:26.534").endswith(":50.534Z")
    assert clock.event_time("a", "2010-04-27T10:14:51Z", "84:18:41:27.486").endswith(":51.486Z")


def test_each_host_has_its_own_anchor() -> None:
    clock = UptimeClock()
    clock.event_time("a", "2010-04-27T10:14:50Z", "84:18:41:26.487")
    assert clock.event_time("b", "2010-04-27T10:14:50Z", "1:00:00:00.111").endswith(":50.111Z")
    assert clock.event_time("a", "2010-04-27T10:14:51Z", "84:18:41:27.000").endswith(":51.000Z")


def test_a_reboot_sets_a_new_anchor() -> None:
    clock = UptimeClock()
    clock.event_time("a", "2010-04-27T10:59:50Z", "84:18:41:26.487")
    assert clock.event_time("a", "2010-04-27T11:00:00Z", "0:00:00:09.250").endswith("00:00.250Z")


def test_milliseconds_from_the_uptime_carry_into_the_next_year() -> None:
    clock = UptimeClock()
    clock.event_time("a", "2010-12-31T23:59:59Z", "0:00:00:01.900")
    moved = clock.event_time("a", "2010-12-31T23:59:59Z", "0:00:00:02.100")
    assert moved == "2011-01-01T00:00:00.100Z"


def test_uptimes_of_forged_hosts_use_limited_memory() -> None:
    clock = UptimeClock()
    for number in range(MOST_ANCHORS + 500):
        clock.event_time(f"made-up-{number}", "2024-05-06T07:08:09Z", "0:00:00:01.500")
        if number % 100 == 0:
            clock.event_time("esx01", "2024-05-06T07:08:09Z", "1:00:00:05.250")
    assert len(clock._offset_ms) == MOST_ANCHORS
    later = clock.event_time("esx01", "2024-05-06T07:08:11Z", "1:00:00:06.750")
    assert later == "2024-05-06T07:08:10.750Z"
