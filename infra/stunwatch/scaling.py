"""What a fleet needs, worked out from measured costs of a core: docs/scaling.md.

`scaling.yaml` holds the assumptions and the costs, each with the reason for its value. Everything
here is arithmetic on it and on what the project itself sets: Kafka's topics and retention.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from stunwatch.schema import SQL
from stunwatch.settings import ROOT

Row = tuple[str, ...]
Table = tuple[Row, list[Row]]
"""A header, and its rows."""

FLEETS = (1_000, 10_000, 100_000)
"""Hosts."""

DAY_S = 86_400
LEAST_SLOTS = 2
LEAST_SHARDS = 1
LOCAL_PARTITION = 2
"""Partitions of a topic in local mode and Compose: as many slots and no more can read it."""


@dataclass(frozen=True)
class Needs:
    """What so many hosts need. Rates are of the average; cores and what follows are of the peak."""

    hosts: int
    lines_per_second: float
    samples_per_second: float
    fluent_bit_cores: int
    kafka_cores: int
    kafka_gigabytes: float
    """For as long as Kafka keeps lines, all copies."""
    partitions: int
    slots: int
    task_managers: int
    collectors: int
    clickhouse_cores: int
    """Of one copy: each copy takes in every line."""
    clickhouse_gigabytes_per_day: float
    """One copy."""
    clickhouse_terabytes: float
    """For as long as ClickHouse keeps each thing, all copies."""
    shards: int


def needs(hosts: int) -> Needs:
    """Work out what a fleet of so many hosts needs."""
    known = figures()
    vm_lines = hosts * known["vms_per_host"] * _vm_lines_per_second()
    lines = hosts * known["syslog_lines_per_host_and_second"] + vm_lines
    samples = hosts * known["samples_per_host_and_second"]
    peak_lines, peak = lines * known["peak_times"], lines * known["peak_times"] + samples
    slots = max(LEAST_SLOTS, _cores(peak, known["flink_records_per_core_second"]))
    clickhouse_cores = _cores(peak, 1e6 / known["clickhouse_us_per_line"])
    daily = _bytes_per_day(lines, samples, hosts)
    kept = {name: size * kept_days()[name] for name, size in daily.items()}
    terabytes = sum(kept.values()) / 1e12
    return Needs(
        hosts=hosts,
        lines_per_second=lines,
        samples_per_second=samples,
        fluent_bit_cores=_cores(peak_lines, known["fluent_bit_lines_per_core_second"]),
        kafka_cores=_cores(peak, 1e6 / known["kafka_us_per_line"]) * round(known["kafka_copies"]),
        kafka_gigabytes=(lines + samples)
        * known["kafka_bytes_per_line"]
        * DAY_S
        * kafka_days()
        * known["kafka_copies"]
        / 1e9,
        # Twice the slots: partitions that are added later move keys to others, out of order.
        partitions=2 * slots,
        slots=slots,
        task_managers=ceil(slots / known["slots_per_task_manager"]),
        collectors=max(
            1, ceil(known["peak_times"] * vm_lines / known["collector_lines_per_second"])
        ),
        clickhouse_cores=clickhouse_cores,
        clickhouse_gigabytes_per_day=sum(daily.values()) / 1e9,
        clickhouse_terabytes=terabytes * known["clickhouse_copies"],
        shards=max(
            LEAST_SHARDS,
            ceil(clickhouse_cores / known["shard_cores"]),
            ceil(terabytes / known["shard_terabytes"]),
        ),
    )


def limits() -> list[tuple[str, int, str]]:
    """What breaks first as it is shipped: what, from how many hosts on, and the knob."""
    known = figures()
    one = needs(1)
    lines, samples = one.lines_per_second, one.samples_per_second
    peak = lines * known["peak_times"] + samples
    share = known["busy_percent"] / 100
    retention = _topics()["defaults"]["config"]["retention.bytes"] * LOCAL_PARTITION
    per_day = known["syslog_lines_per_host_and_second"] * known["kafka_bytes_per_line"] * DAY_S
    terabyte = 1e12 / (one.clickhouse_terabytes * 1e12 / known["clickhouse_copies"])
    found = [
        (
            f"Kafka keeps less than {kafka_days():.0f} days of syslog",
            retention / (per_day * kafka_days()),
            "`retention.bytes` and `partitions` in infra/kafka/topics.yaml",
        ),
        (
            "one ClickHouse reader does not keep up with a storm",
            1e6 / known["clickhouse_us_per_line"] / peak,
            "`kafka_num_consumers` in sql/readers, then shards",
        ),
        (
            "a terabyte is full before lines are old enough to go",
            terabyte,
            "days of `log_lines_stored` in sql/retention.sql, then shards",
        ),
        (
            "two slots of Flink do not keep up with a storm",
            LEAST_SLOTS * known["flink_records_per_core_second"] * share / peak,
            "more partitions, then more task managers",
        ),
        (
            "one Fluent Bit does not keep up with a storm",
            known["fluent_bit_lines_per_core_second"] * share / (lines * known["peak_times"]),
            "more of them behind a TCP load balancer",
        ),
        (
            "one collector of VMs' logs does not keep up",
            known["collector_lines_per_second"]
            / (known["vms_per_host"] * _vm_lines_per_second() * known["peak_times"]),
            "more collectors: they share the work by themselves",
        ),
    ]
    return sorted(((what, int(hosts), knob) for what, hosts, knob in found), key=lambda row: row[1])


def kept_days() -> dict[str, float]:
    """How many days ClickHouse keeps each of what grows, by sql/retention.sql."""
    text = (SQL / "retention.sql").read_text()
    days = {"DAY": 1, "YEAR": 365}
    found = re.findall(r"ALTER TABLE (\w+) MODIFY TTL .* INTERVAL (\d+) (DAY|YEAR)", text)
    kept = {table: int(count) * days[unit] for table, count, unit in found}
    tables = ("log_lines_stored", "latency_samples_stored", "stuns_stored")
    return {table: float(kept[table]) for table in tables}


def kafka_days() -> float:
    """How many days Kafka keeps a line, at most."""
    return float(_topics()["defaults"]["config"]["retention.ms"]) / 1000 / DAY_S


@cache
def figures() -> dict[str, float]:
    """Every assumption and cost, by name."""
    return {name: each["value"] for part in _known().values() for name, each in part.items()}


def tables() -> dict[str, Table]:
    """The tables of docs/scaling.md: a header and its rows, by name."""
    fleets = [needs(hosts) for hosts in FLEETS]
    said = ("what", "value", "why")
    parts: dict[str, Table] = {
        name: (
            said,
            [(_words(key), _number(each["value"]), each["why"]) for key, each in part.items()],
        )
        for name, part in _known().items()
    }
    rows: list[tuple[str, list[float]]] = [
        ("lines a second, on average", [each.lines_per_second for each in fleets]),
        ("latency samples a second", [each.samples_per_second for each in fleets]),
        ("Fluent Bit, cores", [each.fluent_bit_cores for each in fleets]),
        ("collectors of VMs' logs", [each.collectors for each in fleets]),
        ("Kafka, cores of all brokers", [each.kafka_cores for each in fleets]),
        ("Kafka, GB on all brokers", [each.kafka_gigabytes for each in fleets]),
        ("partitions of each raw topic", [each.partitions for each in fleets]),
        ("Flink slots", [each.slots for each in fleets]),
        ("Flink task managers", [each.task_managers for each in fleets]),
        ("ClickHouse, cores of one copy", [each.clickhouse_cores for each in fleets]),
        ("ClickHouse shards", [each.shards for each in fleets]),
        ("ClickHouse, GB a day, one copy", [each.clickhouse_gigabytes_per_day for each in fleets]),
        ("ClickHouse, TB kept, all copies", [each.clickhouse_terabytes for each in fleets]),
    ]
    header = ("", *(f"{hosts:,} hosts" for hosts in FLEETS))
    parts["needs"] = (header, [(what, *map(_number, row)) for what, row in rows])
    parts["disk"] = (
        ("kept", "days", *(f"GB a day, {hosts:,} hosts" for hosts in FLEETS)),
        [
            (
                f"`{table}`",
                _number(days),
                *(
                    _number(
                        _bytes_per_day(each.lines_per_second, each.samples_per_second, each.hosts)[
                            table
                        ]
                        / 1e9
                    )
                    for each in fleets
                ),
            )
            for table, days in kept_days().items()
        ],
    )
    parts["limits"] = (
        ("what", "from about so many hosts", "the knob"),
        [(what, f"{_rounded(hosts):,}", knob) for what, hosts, knob in limits()],
    )
    return parts


def _bytes_per_day(lines: float, samples: float, hosts: int) -> dict[str, float]:
    """What ClickHouse takes in on a day of these rates a second, one copy."""
    known = figures()
    return {
        "log_lines_stored": lines * DAY_S * known["clickhouse_bytes_per_line"],
        "latency_samples_stored": samples * DAY_S * known["clickhouse_bytes_per_sample"],
        "stuns_stored": hosts
        * known["vms_per_host"]
        * known["stuns_per_vm_and_day"]
        * known["clickhouse_bytes_per_stun"],
    }


def _vm_lines_per_second() -> float:
    known = figures()
    daily = known["vm_log_megabytes_per_vm_and_day"] * 1e6
    return daily / known["bytes_per_line"] / DAY_S


def _cores(per_second: float, per_core_second: float) -> int:
    """Cores for a rate, none of them busier than it may be."""
    return max(1, ceil(per_second / (per_core_second * figures()["busy_percent"] / 100)))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{round(value):,}"
    return f"{value:.2g}" if value < 1 else f"{value:.1f}"


def _rounded(hosts: int) -> int:
    """Two digits: more would claim more than is known."""
    step = int("1" + "0" * max(0, len(str(hosts)) - 2))
    return hosts // step * step


@cache
def _known() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
        Path(__file__).with_name("scaling.yaml").read_text()
    )
    return found


@cache
def _topics() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "infra/kafka/topics.yaml").read_text())
    return found
