"""A host's log lines about slow storage, from its files to episodes and samples."""

from __future__ import annotations

from tests.end_to_end.conftest import Replayed
from tests.end_to_end.logs import OPEN, SLOW, STORAGE_RM, VMKERNEL, VOBD
from tests.end_to_end.logs import WORDS_HOST as HOST
from tests.pipeline import Pipeline


def test_log_lines_give_episodes_and_samples(pipeline: Pipeline, replayed: Replayed) -> None:
    folder = replayed.root / "slow_storage" / HOST
    mine = f"FROM latency_episodes WHERE host = '{HOST}' ORDER BY started_at"
    assert pipeline.rows(f"SELECT device, started_at, ended_at {mine}") == [
        (SLOW, "2016-02-03 04:05:06.789000", "2016-02-03 04:08:00.250000"),
        (OPEN, "2016-02-03 04:05:30.000000", None),
    ]
    assert pipeline.rows(f"SELECT object_class, metric, origin, kind {mine}") == [
        ("scsi_device", "davg", "vmkernel", "sustained"),
        ("scsi_device", "davg", "vmkernel", "spike"),
    ]
    assert pipeline.rows(f"SELECT threshold_ms, peak_ms, mean_ms, baseline_ms, samples {mine}") == [
        (None, 99, 81.5, 2, 3),
        (None, 31, 31, 0.9, 1),
    ]
    [(evidence,)] = pipeline.rows(
        f"SELECT evidence FROM latency_episodes WHERE host = '{HOST}' AND device = '{SLOW}'"
    )
    assert evidence == [VMKERNEL[0], VOBD[0], VOBD[1], VMKERNEL[3], VMKERNEL[4], VOBD[2]]

    samples = f"FROM latency_samples WHERE host = '{HOST}' ORDER BY sampled_at"
    assert pipeline.rows(
        f"SELECT sampled_at, device, gavg_ms, davg_ms, commands_per_second {samples}"
    ) == [
        ("2016-02-03 04:05:00.100000", "ds-words", 0.83, None, 84),
        ("2016-02-03 04:05:04.100000", "ds words 2", 41.5, None, 9),
        ("2016-02-03 04:05:08.100000", "ds-words", 12, None, 0.5),
    ]
    assert pipeline.rows(f"SELECT object_class, time_quality, line_bytes {samples}") == [
        ("datastore", "exact", len(STORAGE_RM[place]) + 1) for place in (0, 1, 5)
    ]
    count = pipeline.one(f"SELECT count() FROM log_lines WHERE startsWith(file, '{folder}')")
    assert count == len(VMKERNEL) + len(VOBD) + len(STORAGE_RM)
    assert pipeline.rows(
        f"SELECT source, lines, bytes_seen, gaps FROM coverage WHERE file = '{folder}/syslog.log'"
    ) == [("syslog", len(STORAGE_RM), sum(len(line) + 1 for line in STORAGE_RM), [])]


def test_the_investigations_of_latency_return_rows(pipeline: Pipeline, replayed: Replayed) -> None:
    sustained = pipeline.run(
        "sql", "sustained_latency", "--param", f"device={SLOW}", "--format", "TSV"
    )
    assert sustained.stdout.split("\t")[:2] == [HOST, SLOW]
    ranked = pipeline.run("sql", "latency_by_device", "--format", "TSV").stdout.splitlines()
    [row] = [line.split("\t") for line in ranked if line.startswith(OPEN)]
    assert row[1:6] == ["scsi_device", "1", "1", "0", "1"]
