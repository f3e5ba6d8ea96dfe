"""The view coverage finds the missing bytes of files from the runs of their lines.

On random files with lost, repeated and rejected lines, it equals the definition that reads every
stored line.
"""

from __future__ import annotations

import random

import pytest

from tests.clickhouse_server import Server

FILES = 30

BY_LINES = """
WITH
    pieces AS
    (
        SELECT generation, offset, line_bytes, event_time, received_at
        FROM log_lines_stored
        UNION ALL
        SELECT generation, offset, line_bytes, NULL AS event_time, received_at
        FROM rejected_lines_stored
    ),

    lines AS
    (
        SELECT
            generation, offset AS line_from, offset + max(line_bytes) AS line_to,
            max(event_time) AS written_at
        FROM pieces
        GROUP BY generation, offset
    ),

    followed AS
    (
        SELECT
            *,
            max(line_to) OVER (
                PARTITION BY generation ORDER BY line_from
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS seen_to
        FROM lines
    )

SELECT
    generation,
    sum(line_to - line_from) AS bytes_seen,
    max(line_to) AS bytes_to,
    arraySort(groupArrayIf((seen_to, line_from), line_from > seen_to)) AS gaps,
    max(written_at) AS last_event_time
FROM followed
GROUP BY generation
ORDER BY generation
"""
"""The definition that reads every line."""


def insert(server: Server, table: str, rows: list[tuple[str, int, int]]) -> None:
    """Insert lines (generation, offset, bytes) as one block."""
    if not rows:
        return
    columns = {
        "log_lines_stored": "event_time, given_received_at, source, host, message",
        "rejected_lines_stored": "received_at, source, host, line",
    }[table]
    values = ", ".join(
        f"('{generation}', {offset}, {size},"
        # A line has the same time whenever it arrives.
        f" {f'toDateTime64({1_700_000_000 + offset}, 6),' if 'event_time' in columns else ''}"
        f" now64(6), 'syslog', 'esx01', 'a line of {generation}')"
        for generation, offset, size in rows
    )
    server.admin.command(
        f"INSERT INTO {table} (generation, offset, line_bytes, {columns}) VALUES {values}"
    )


@pytest.mark.parametrize("seed", range(4))
def test_gaps_equal_those_of_the_lines_with_losses_replays_and_rejects(
    server: Server, seed: int
) -> None:
    server.empty()
    chance = random.Random(seed)
    whole: dict[str, tuple[int, int]] = {}
    lines: list[tuple[str, int, int]] = []
    for number in range(FILES):
        name, offset = f"file-{number}", 0
        of_file = []
        for _ in range(chance.randrange(1, 60)):
            size = chance.randrange(1, 200)
            of_file.append((name, offset, size))
            offset += size
        whole[name] = (len(of_file), offset)
        lines += of_file
    kept = [each for each in lines if chance.random() < (1, 0.9, 0.5, 0.98)[seed]]
    for _ in range(chance.randrange(1, 5)):
        # A replay ships a part of the lines once more, in other blocks.
        start = chance.randrange(len(lines))
        kept += lines[start : start + chance.randrange(400)]
    if chance.random() < 0.5:
        chance.shuffle(kept)
    while kept:
        block, kept = kept[: (size := chance.randrange(1, 400))], kept[size:]
        is_rejected = [chance.random() < 0.1 for _ in block]
        for table, wanted in (("log_lines_stored", False), ("rejected_lines_stored", True)):
            insert(
                server,
                table,
                [each for each, is_one in zip(block, is_rejected, strict=True) if is_one is wanted],
            )
    expected = server.admin.rows(BY_LINES)
    found = server.admin.rows(
        "SELECT generation, bytes_seen, bytes_to, gaps, last_event_time FROM coverage"
        " ORDER BY generation"
    )
    assert found == expected
    if seed:
        assert any(row[3] for row in found)


def test_a_replay_of_a_whole_file_changes_nothing(server: Server) -> None:
    server.empty()
    lines = [("a", number * 10, 10) for number in range(100) if number not in {7, 50}]
    for first in range(0, 98, 9):
        insert(server, "log_lines_stored", lines[first : first + 9])
    before = server.admin.rows("SELECT * FROM coverage")
    assert server.reader.rows("SELECT lines, bytes_seen, gaps FROM coverage") == [
        (98, 980, [[70, 80], [500, 510]])
    ]
    insert(server, "log_lines_stored", lines)
    assert server.admin.rows("SELECT * FROM coverage") == before


@pytest.mark.parametrize("seed", range(4))
def test_a_replay_in_other_blocks_counts_the_same_lines(server: Server, seed: int) -> None:
    server.empty()
    chance = random.Random(seed)
    lines, offset = [], 0
    for _ in range(400):
        size = chance.randrange(1, 300)
        if chance.random() < 0.99:
            lines.append(("a", offset, size))
        offset += size

    def arrive(left: list[tuple[str, int, int]]) -> None:
        while left:
            block, left = left[: (size := chance.randrange(1, 150))], left[size:]
            insert(server, "log_lines_stored", block)

    arrive(lines)
    before = server.admin.rows("SELECT * FROM coverage")
    assert server.admin.rows("SELECT lines FROM coverage") == [(len(lines),)]
    for _ in range(3):
        arrive(lines)
        assert server.admin.rows("SELECT * FROM coverage") == before


def test_lines_that_kafka_delivers_twice_count_once(server: Server) -> None:
    """ClickHouse was killed before it committed its offsets, so it stores the next block again."""
    server.empty()
    lines = [("a", number**2, 2 * number + 1) for number in range(100)]
    for first, last in ((0, 30), (30, 60), (30, 80), (80, 100)):
        insert(server, "log_lines_stored", lines[first:last])
    assert server.admin.rows("SELECT lines, bytes_seen FROM coverage") == [(100, 10_000)]


def test_copies_of_a_line_with_another_length_are_in_one_run(server: Server) -> None:
    server.empty()
    insert(
        server,
        "log_lines_stored",
        [("a", 0, 10), ("a", 0, 7), ("a", 0, 10), ("a", 10, 10), ("a", 25, 5)],
    )
    assert server.admin.rows(
        "SELECT run_from, run_to, lines FROM file_runs_stored ORDER BY run_from"
    ) == [(0, 20, 2), (25, 30, 1)]
    assert server.reader.rows("SELECT lines, bytes_seen, gaps FROM coverage") == [
        (3, 25, [[20, 25]])
    ]
