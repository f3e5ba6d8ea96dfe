"""One parser handles all times and durations that users type."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.errors import UserError
from stunwatch.investigations import investigations
from stunwatch.times import FORMS, in_zone, length, moment, zone

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("2024-05-06", "2024-05-06T00:00:00"),
        ("2024-05-06 07:08", "2024-05-06T07:08:00"),
        ("2024-05-06  07:08:09", "2024-05-06T07:08:09"),
        ("2024-05-06 07:08:09.123", "2024-05-06T07:08:09.123000"),
        ("2024-05-06T07:08Z", "2024-05-06T07:08:00"),
        ("2024-05-06t07:08z", "2024-05-06T07:08:00"),
        ("2024-05-06 07:08 UTC", "2024-05-06T07:08:00"),
        ("2024-05-06 07:08:09 Z", "2024-05-06T07:08:09"),
        ("2024-05-06T07:08+02:00", "2024-05-06T05:08:00"),
        ("2024-05-06 07:08:09 -0530", "2024-05-06T12:38:09"),
        ("yesterday 22:00", "2024-05-05T22:00:00"),
        ("Yesterday", "2024-05-05T00:00:00"),
        ("today 6:05", "2024-05-06T06:05:00"),
        ("2h ago", "2024-05-06T05:08:09"),
        ("90 minutes ago", "2024-05-06T05:38:09"),
        ("1d12h ago", "2024-05-04T19:08:09"),
        ("1 week ago", "2024-04-29T07:08:09"),
        ("-2h", "2024-05-06T05:08:09"),
        ("-30 min", "2024-05-06T06:38:09"),
        (" NOW ", "2024-05-06T07:08:09"),
    ],
)
def test_each_form_of_a_time_is_parsed(typed: str, found: str) -> None:
    assert moment(typed, NOW) == datetime.fromisoformat(found).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "typed",
    [
        *("", "soon", "2h", "-2", "-", "ago", "24:00", "yesterday 25:00", "2024-13-01"),
        *("06.05.2024", "05/06/2024", "0001-01-01T00:00+01:00", "-999999999w"),
        *("2024-05-06 07:08 CEST", "\u0662h ago"),
    ],
)
def test_an_invalid_time_is_an_error_with_the_value_and_the_forms(typed: str) -> None:
    with pytest.raises(UserError) as caught:
        moment(typed, NOW)
    assert repr(typed) in str(caught.value)
    assert all(form in str(caught.value) for form in FORMS)


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("typed", "now", "found"),
    [
        # In Berlin it is already the 6th.
        ("today", "2024-05-05T22:30Z", "2024-05-05T22:00Z"),
        ("yesterday 22:00", "2024-05-05T22:30Z", "2024-05-05T20:00Z"),
        ("yesterday 22:00", "2024-01-06T12:00Z", "2024-01-05T21:00Z"),
        # The time 02:30 exists twice in October and not at all in March.
        ("yesterday 02:30", "2024-10-28T12:00Z", "2024-10-27T00:30Z"),
        ("yesterday 02:30", "2024-04-01T12:00Z", "2024-03-31T01:30Z"),
        ("2024-05-06 07:08", "2024-05-06T12:00Z", "2024-05-06T07:08Z"),
    ],
)
def test_today_and_yesterday_are_days_in_the_sites_time_zone(
    typed: str, now: str, found: str
) -> None:
    at = moment(typed, datetime.fromisoformat(now), BERLIN)
    assert at == datetime.fromisoformat(found)


@pytest.mark.parametrize(
    ("at", "place", "shown"),
    [
        ("2024-05-06T07:08:09.999Z", UTC, "2024-05-06 07:08:09 UTC"),
        ("2024-10-27T00:30Z", BERLIN, "2024-10-27 02:30:00 +02:00"),
        ("2024-10-27T01:30Z", BERLIN, "2024-10-27 02:30:00 +01:00"),
        ("2024-03-31T00:59:59Z", BERLIN, "2024-03-31 01:59:59 +01:00"),
        ("2024-03-31T01:00Z", BERLIN, "2024-03-31 03:00:00 +02:00"),
        ("2024-05-06T07:08Z", ZoneInfo("America/St_Johns"), "2024-05-06 04:38:00 -02:30"),
    ],
)
def test_a_time_is_printed_in_the_sites_time_zone(at: str, place: tzinfo, shown: str) -> None:
    assert in_zone(datetime.fromisoformat(at), place) == shown


@given(
    st.datetimes(datetime(1980, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_a_printed_time_is_parsed_as_the_same_time(at: datetime, name: str) -> None:
    assert moment(in_zone(at, ZoneInfo(name), "microseconds"), NOW) == at


@given(st.text(max_size=40))
def test_any_other_text_is_an_error_or_a_time_in_utc(typed: str) -> None:
    with suppress(UserError):
        assert moment(typed, NOW).tzinfo is UTC


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from("T "),
)
def test_an_iso_time_with_any_offset_is_parsed(at: datetime, offset: int, between: str) -> None:
    there = at.replace(tzinfo=timezone(timedelta(minutes=offset)))
    assert moment(there.isoformat(between), NOW) == there


def test_docs_explain_each_form_of_a_time() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    assert re.findall(
        r"^\| `(.+?)` \| .*\|$", page.split("## Times")[1].split("## Ids")[0], re.M
    ) == [*FORMS]


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [
        ("30m", 1800),
        ("4h", 14400),
        ("1d12h", 129600),
        ("2 days", 172800),
        ("0h", 0),
        ("1W", 604800),
    ],
)
def test_each_form_of_a_duration_is_parsed(typed: str, seconds: int) -> None:
    assert length(typed) == timedelta(seconds=seconds)


@pytest.mark.parametrize("typed", ["", "4", "4x", "h", "-4h", "4h ago", "1.5h", "9" * 20 + "w"])
def test_other_texts_are_not_durations(typed: str) -> None:
    assert length(typed) is None


@pytest.mark.parametrize("name", ["Mars", "", "../etc/passwd", "Europe/Wien ", "\0"])
def test_an_unknown_time_zone_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match="is not a time zone"):
        zone(name)


TIMED = [
    (investigation.name, parameter)
    for investigation in investigations().values()
    for parameter in investigation.defaults
    if parameter in {"at", "since", "until", "from_at", "to_at"}
]


@pytest.mark.parametrize(("name", "parameter"), TIMED)
def test_investigations_accept_the_same_forms_of_times(name: str, parameter: str) -> None:
    investigation = investigations()[name]
    required = {"at": "now"} if investigation.defaults.get("at", "") is None else {}
    for form in FORMS:
        read = investigation.parameters({**required, parameter: form})[parameter]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?", read), form
    with pytest.raises(UserError, match="is not a time"):
        investigation.parameters({**required, parameter: "soon"})
    with pytest.raises(UserError, match="out of range"):
        investigation.parameters({**required, parameter: "1066-10-14"})


def test_every_time_parameter_is_tested() -> None:
    for each in investigations().values():
        times = {name for name, kind in each.types.items() if kind.startswith("Date")}
        assert {(each.name, name) for name in times} <= set(TIMED)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"most": "abc"}, "'abc' is not a whole number"),
        ({"most": "-1"}, "'-1' is not a whole number"),
        ({"most": "99999999999"}, "is not a whole number"),
        ({"slow_ms": "fast"}, "'fast' is not a number"),
        ({"slow_ms": "nan"}, "'nan' is not a number"),
        ({"weks": "2"}, "no parameter weks. Did you mean weeks?"),
    ],
)
def test_an_invalid_parameter_is_an_error_with_its_name_and_value(
    given: dict[str, str], told: str
) -> None:
    with pytest.raises(UserError) as caught:
        investigations()["luns_slow_all_the_time"].parameters(given)
    assert told in str(caught.value)
