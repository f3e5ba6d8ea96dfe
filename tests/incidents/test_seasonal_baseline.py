"""Which stuns are usual at their hour."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.incidents.configuration import (
    HOUR_US,
    LONE_STUN_US,
    USUAL_DAYS,
    USUAL_FACTOR,
    USUAL_WEEKS,
)
from stunwatch.incidents.seasonal_baseline import Hours, is_usual

NOW = 400_000
"""Hours since 1970."""

DAYS = (*range(1, 8), 14, 21, 28)
AGO = st.sampled_from([days * 24 + hours for days in DAYS for hours in (-2, -1, 0, 1, 2)])
WEEKS_AGO = st.sampled_from([days * 24 + hours for days in (7, 14, 21, 28) for hours in (-1, 0, 1)])
STUN_US = st.sampled_from([1e6, 2e6, 3e6, 5e6, LONE_STUN_US - 1, LONE_STUN_US])


def as_defined(hours: Hours, duration_us: float) -> bool:
    """Return the result by the definition in incidents.yaml, without a shortcut."""

    def at(days: range) -> list[float]:
        """Return the longest stun near this hour, of each of these days that has one."""
        near = [[hours.get(NOW - day * 24 + each) for each in (-1, 0, 1)] for day in days]
        known = [[each for each in day if each is not None] for day in near]
        return [max(day) for day in known if day]

    weeks, days = at(range(7, 29, 7)), at(range(1, 8))
    is_known = len(weeks) >= USUAL_WEEKS or len(days) >= USUAL_DAYS
    return (
        is_known and duration_us < LONE_STUN_US and duration_us <= USUAL_FACTOR * max(weeks + days)
    )


@settings(max_examples=500)
@given(
    st.dictionaries(WEEKS_AGO, STUN_US, max_size=3)
    | st.dictionaries(AGO | st.integers(-30, 700), STUN_US, max_size=6),
    STUN_US,
)
def test_a_stun_is_usual_as_defined(ago: Hours, duration_us: float) -> None:
    hours = {NOW - each: worst for each, worst in ago.items()}
    assert is_usual({"vm a": hours}, "vm a", NOW * HOUR_US, duration_us) == as_defined(
        hours, duration_us
    )
