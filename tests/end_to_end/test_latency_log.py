"""What a host says of slow storage in words: from its files to episodes and samples."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.conftest import Pipeline

HOST = "esx21.words.example"
SLOW = "naa.600144f0a1b2c3d40000607182930001"
OPEN = "naa.600144f0a1b2c3d40000607182930002"


def worse(device: str, before_us: int, after_us: int) -> str:
    return (
        f"Device {device} performance has deteriorated. I/O latency increased from average value "
        f"of {before_us} microseconds to {after_us} microseconds."
    )


def better(device: str, before_us: int, after_us: int) -> str:
    return (
        f"Device {device} performance has improved. I/O latency reduced from {before_us} "
        f"microseconds to {after_us} microseconds."
    )


VMKERNEL = [
    f"2016-02-03T04:05:06.789Z cpu3:33001)WARNING: ScsiDeviceIO: 1223: {worse(SLOW, 2000, 64000)}",
    "2016-02-03T04:05:07.000Z cpu3:33001)NMP: nmp_ThrottleLogForDevice:2322: last error status",
    f"2016-02-03T04:05:30.000Z cpu5:33003)WARNING: ScsiDeviceIO: 1223: {worse(OPEN, 900, 31000)}",
    f"2016-02-03T04:06:00.000Z cpu3:33001)WARNING: ScsiDeviceIO: 1223: {worse(SLOW, 3000, 99000)}",
    f"2016-02-03T04:08:00.250Z cpu3:33001)ScsiDeviceIO: 1203: {better(SLOW, 99000, 20000)}",
]
VOBD = [
    "2016-02-03T04:05:07.290Z: [scsiCorrelator] 70001us: [vob.scsi.device.io.latency.high] "
    + worse(SLOW, 2000, 64000),
    "2016-02-03T04:05:07.791Z: [scsiCorrelator] 70002us: [esx.problem.scsi.device.io.latency.high] "
    + worse(SLOW, 2000, 64000),
    "2016-02-03T04:08:01.251Z: [scsiCorrelator] 70003us: "
    f"[esx.clear.scsi.device.io.latency.improved] {better(SLOW, 99000, 20000)}",
]
STORAGE_RM = [
    f"<14>2016-02-03T04:05:00.100Z {HOST} storageRM:  <ds-words> 3301 avglatency= 0.83 iops= 84 "
    "threshold= 30 Win = 30.00 ws= 30 devqdepth= 30 iocount= 4 noio= 0.00 coio= 0.05",
    f"<14>2016-02-03T04:05:04.100Z {HOST} storageRM:  <ds words 2> 3302 avglatency= 41.5 iops= 9 "
    "threshold= 30 Win = 12.00 ws= 30 devqdepth= 12 iocount= 3 noio= 0.00 coio= 0.90",
    f"<14>2016-02-03T04:05:05.100Z {HOST} storageRM:  <ds-words>  retry : 1,  Device or resource "
    "busy Error -1 opening file /vmfs/volumes//ds-words/.iorm.sf/slotsfile",
    f"<14>2016-02-03T04:05:06.100Z {HOST} storageRM:  <ds-words> 3303 avglatency= -nan iops= 0 "
    "threshold= 30",
    f"<14>2016-02-03T04:05:07.100Z {HOST} shell:  <ds-words> 3304 avglatency= 5.00 iops= 1 ",
    f"<14>2016-02-03T04:05:08.100Z {HOST} storageRM:  <ds-words> 3305 avglatency= 12 iops= 0.5",
]


def test_words_become_episodes_and_samples(pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / HOST
    folder.mkdir()
    for name, lines in (
        ("vmkernel.log", VMKERNEL),
        ("vobd.log", VOBD),
        ("syslog.log", STORAGE_RM),
    ):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    pipeline.run("replay", tmp_path)

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
    count = pipeline.one(f"SELECT count() FROM log_lines WHERE startsWith(file, '{tmp_path}')")
    assert count == len(VMKERNEL) + len(VOBD) + len(STORAGE_RM)
    assert pipeline.rows(
        f"SELECT source, lines, bytes_seen, gaps FROM coverage WHERE file = '{folder}/syslog.log'"
    ) == [("syslog", len(STORAGE_RM), sum(len(line) + 1 for line in STORAGE_RM), [])]

    before = pipeline.views(), pipeline.rows("SELECT * FROM latency_episodes ORDER BY event_id")
    pipeline.run("replay", tmp_path)
    after = pipeline.views(), pipeline.rows("SELECT * FROM latency_episodes ORDER BY event_id")
    assert after == before


def test_the_questions_on_latency_have_answers(pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / HOST
    folder.mkdir()
    (folder / "vmkernel.log").write_text("".join(f"{line}\n" for line in VMKERNEL))
    pipeline.run("replay", tmp_path)
    sustained = pipeline.run(
        "sql", "sustained_latency", "--param", f"device={SLOW}", "--format", "TSV"
    )
    assert sustained.stdout.split("\t")[:2] == [HOST, SLOW]
    ranked = pipeline.run("sql", "latency_by_device", "--format", "TSV").stdout.splitlines()
    [row] = [line.split("\t") for line in ranked if line.startswith(OPEN)]
    assert row[1:6] == ["scsi_device", "1", "1", "0", "1"]
