"""Events of a host that hostd and vCenter repeat in their own wording.

If a host lost access to a volume or could not send its log, its own lines may be missing, and the
only report is often the event that vCenter sends by syslog. Such a line belongs to the host that
its text names, not to the vCenter that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

_VPXD: Final = (
    r"^\s{0,8}Event \[\d{1,19}\] \[\d{1,9}-\d{1,9}\] \[([^\]]{1,40})\] \[vim\.event\.\w{1,80}\]"
    r" \[\w{0,20}\] \[[^\]]{0,256}\] \[[^\]]{0,256}\] \[\d{0,19}\] \[(?:Issue|Error) detected on "
)
_NAMED: Final = r"(\S{1,255}) in .{1,80}?: (.*)$"

# <14>1 … vcenter01 vpxd 5012 - -  Event [81204] [1-1] [2022-03-04T05:06:07.18797Z] [vim.event.GeneralHostWarningEvent] [warning] [] [Site-A] [81204] [Issue detected on esx07.lab.example in Site-A: vmsyslog logger 192.0.2.10:514 lost 17 log messages  # noqa: E501
_BY_VCENTER: Final = re.compile(_VPXD + _NAMED, re.ASCII)

# Event 812 : Issue detected on esx07.lab.example in ha-datacenter: vmsyslog logger 192.0.2.10:514 lost 17 log messages  # noqa: E501
_BY_HOSTD: Final = re.compile(r"^Event \d{1,19} : (?:Issue|Error) detected on " + _NAMED, re.ASCII)

OWNER_PATTERN: Final = _VPXD + r"([0-9.]{1,255}(?= in )|\S{0,255}:\S{0,255}(?= in )|[^\s.]{1,255})"
"""Group 2 of vCenter's line, in lower case, is the key of the host that it names. The JVM keys the
line by it (jobs/detect.sql), so that it reaches the same tracker as the host's own lines."""

_OLDEST: Final = timedelta(days=40)
_NEWEST: Final = timedelta(minutes=5)


class Copy(NamedTuple):
    """An event of a host as another program repeats it."""

    by: Literal["hostd", "vcenter"]
    host: str
    """As the text names it; empty if hostd repeats an event of its own host."""
    at_us: int
    """When it happened: vCenter may log it hours later."""
    text: str


_OWNER: Final = re.compile(OWNER_PATTERN, re.ASCII)


def owner_of(message: str, key: str) -> str:
    """Return the log key of a line whose Kafka key is `key`, by the rule of jobs/detect.sql."""
    found = _OWNER.search(message) if " detected on " in message else None
    return (found and found[2].lower()) or key


def copied(record: Mapping[str, Any]) -> Copy | None:
    """Parse the event that a record repeats. Return None if it repeats none."""
    message = record["message"]
    at_us = record["event_time_us"]
    if found := _BY_HOSTD.search(message):
        return Copy("hostd", "", at_us, found[2])
    if found := _BY_VCENTER.search(message):
        text = found[3].rstrip().removesuffix("]")
        return Copy("vcenter", found[2], _told_us(found[1], at_us), text)
    return None


def host_of(record: Mapping[str, Any], copy: Copy | None) -> str:
    """Return the host that a line is about."""
    return (copy and copy.host) or record.get("host", "")


def _told_us(told: str, arrived_us: int) -> int:
    """Return the time in the text if it is plausible, otherwise the time of the line."""
    try:
        at = datetime.fromisoformat(told)
        at_us = int(at.timestamp()) * 1_000_000 + at.microsecond
    except (ValueError, OverflowError):
        return arrived_us
    waited = timedelta(microseconds=arrived_us - at_us)
    return at_us if at.tzinfo and -_NEWEST <= waited <= _OLDEST else arrived_us
