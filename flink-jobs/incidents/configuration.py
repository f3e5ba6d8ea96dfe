"""The thresholds of incidents.yaml, times in microseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stunwatch.ingest import yaml_file

_FIGURES: dict[str, Any] = yaml_file.read(Path(__file__).with_name("incidents.yaml"))

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US

LOG_LATENCY_MS: int = _FIGURES["log_latency_ms"]
BAD_STUN_US: int = _FIGURES["bad_stun_us"]
STORM_VMS: int = _FIGURES["storm_vms_count"]
STORM_CRITICAL_VMS: int = _FIGURES["storm_critical_vms_count"]
STORM_US: int = _FIGURES["storm_minutes"] * MINUTE_US
LONE_STUN_US: int = _FIGURES["lone_stun_us"]
USUAL_FACTOR: int = _FIGURES["usual_factor"]
USUAL_WEEKS: int = _FIGURES["usual_weeks_count"]
USUAL_DAYS: int = _FIGURES["usual_days_count"]
PAUSE_US: int = _FIGURES["pause_minutes"] * MINUTE_US
CLOSING_US: int = _FIGURES["closing_seconds"] * SECOND_US
TOGETHER_US: int = _FIGURES["together_minutes"] * MINUTE_US
FABRIC_US: int = _FIGURES["fabric_minutes"] * MINUTE_US
EVIDENCE_US: int = _FIGURES["evidence_minutes"] * MINUTE_US
RUNNING_US: int = _FIGURES["running_hours"] * HOUR_US
LOSS_US: int = _FIGURES["loss_minutes"] * MINUTE_US
LOG_LATENCY_US: int = _FIGURES["log_latency_minutes"] * MINUTE_US
SCSI_HOSTS: int = _FIGURES["scsi_hosts_count"]
SCSI_ERRORS: int = _FIGURES["scsi_errors_count"]
SEEN_US: int = _FIGURES["seen_minutes"] * MINUTE_US
KEEP_US: int = _FIGURES["keep_hours"] * HOUR_US
MOST_HOSTS: int = _FIGURES["most_hosts_count"]
MOST_AWAITED: int = _FIGURES["most_awaited_count"]
MOST_SIGNALS: int = _FIGURES["most_signals_count"]
MOST_USUAL_HOURS: int = _FIGURES["most_usual_hours_count"]
MOST_TOLD_BY_LOGS: int = _FIGURES["most_told_by_logs_count"]
FASTEST_CLOCK_US: int = _FIGURES["fastest_clock_hours"] * HOUR_US
