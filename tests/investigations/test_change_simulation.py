"""How often is change_effects_of right, with and without a real change?

The simulated five-minute means of latency are autocorrelated over hours and follow the time of day.
"""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.clickhouse_server import Server

SEED = 17
COMPARISONS = 60
DAYS = 7
CHANGED_AT = datetime(2024, 3, 10, 12, tzinfo=UTC)
STEP = timedelta(minutes=5)
RESEMBLANCE = 0.97
"""Correlation of a mean with the next one. It falls to a half in two hours."""


def latencies(rng: random.Random, factor_after: float) -> list[tuple[datetime, float]]:
    """Return DAVG of a LUN, DAYS before and after: log-normal, autocorrelated, slower at night."""
    at, found = CHANGED_AT - timedelta(days=DAYS), []
    drift = rng.gauss(0, 1)
    while at < CHANGED_AT + timedelta(days=DAYS):
        drift = RESEMBLANCE * drift + math.sqrt(1 - RESEMBLANCE**2) * rng.gauss(0, 1)
        daily = 0.5 * math.cos((at.hour + at.minute / 60) / 24 * 2 * math.pi)
        factor = factor_after if at >= CHANGED_AT else 1.0
        found.append((at, factor * 5 * math.exp(0.6 * drift + daily)))
        at += STEP
    return found


ASKED = """
SELECT device, groupUniqArray(verdict)
FROM change_effects_of(
    change = '', at = '', most = {changes:UInt32}, days = 90, settle_minutes = 10, vm = '',
    vm_luns = '', host = '', datastore = '', device = '', least_samples = 5,
    significance = 0.05, least_change_percent = 0
)
GROUP BY device
"""


def verdicts(server: Server, factor_after: float) -> list[set[str]]:
    """Return the verdicts of each comparison: one change for each LUN."""
    server.empty()
    rng = random.Random(SEED)
    for number in range(COMPARISONS):
        rows = "\n".join(
            f"{at:%Y-%m-%d %H:%M:%S},esx1,scsi_device,naa.{number},{davg_ms:.3f},{davg_ms:.3f}"
            for at, davg_ms in latencies(rng, factor_after)
        )
        server.admin.command(
            "INSERT INTO latency_windows_stored"
            " (window_start, host, object_class, device, avg_davg_ms, max_davg_ms)"
            f" FORMAT CSV\n{rows}"
        )
    server.admin.command(
        "INSERT INTO changes_stored (change_id, changed_at, kind, title, device)"
        f" SELECT generateUUIDv4(), '{CHANGED_AT:%Y-%m-%d %H:%M:%S}', 'policy', 'path policy',"
        f" concat('naa.', toString(number)) FROM numbers({COMPARISONS})"
    )
    found = server.reader.rows(ASKED, {"changes": COMPARISONS})
    assert len(found) == COMPARISONS
    return [set(each) for _, each in found]


@pytest.mark.slow
def test_without_a_change_at_most_5_percent_of_the_verdicts_report_one(server: Server) -> None:
    found = verdicts(server, 1.0)
    wrong = sum(bool(each & {"better", "worse"}) for each in found)
    assert wrong <= 0.05 * COMPARISONS, f"{wrong} of {COMPARISONS}"


@pytest.mark.slow
def test_a_lun_that_became_twice_as_slow_is_worse_in_90_percent_of_the_verdicts(
    server: Server,
) -> None:
    found = verdicts(server, 2.0)
    right = sum("worse" in each for each in found)
    assert right >= 0.9 * COMPARISONS, f"{right} of {COMPARISONS}"
    assert not any("better" in each for each in found)
