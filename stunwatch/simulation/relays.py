"""Changes a host's lines like syslog relays and agents do."""

from __future__ import annotations

import re

import orjson

from stunwatch.simulation.fleet import Host
from stunwatch.simulation.log_writers import MS, Entry, LogWriter, Spell, Stamps, file_speller

_RELAY = "relay01"
_FIELDS = ("message", "@message", "short_message", "log", "MESSAGE")
"""Fields with the line: in Filebeat, Logstash, GELF, containers and journald."""
_TAILED = ("vmkernel", "hostd", "vobd")
"""Logs that an agent tails; the host itself sends the others."""
_DELAY_US = 1_300 * MS
_WIRE = re.compile(r"<(?P<pri>\d{1,3})>(?P<stamp>\S+) (?P<host>\S+) (?P<rest>.*)", re.DOTALL)
_BSD, _ISO = "%b %e %H:%M:%S", "%Y-%m-%dT%H:%M:%S"


def behind_relay(host: Host, log_writer: LogWriter) -> Spell:
    """Return the formatter for lines that the host sends by `host.relay`."""
    wire = log_writer.spell
    bsd, iso = Stamps(_BSD, suffix=""), Stamps(_ISO, suffix="+00:00")

    field = _FIELDS[host.number % len(_FIELDS)]

    def parts(entry: Entry) -> re.Match[str]:
        found = _WIRE.fullmatch(wire(entry))
        assert found is not None
        return found

    def rsyslog(entry: Entry) -> str:
        return f"{bsd.whole(entry.time_us)} {host.label} {parts(entry)['rest']}"

    def two_stamps(entry: Entry) -> str:
        sent = parts(entry)
        line = f"{sent['stamp']} {sent['host']} {sent['rest']}"
        return f"{bsd.whole(entry.time_us + _DELAY_US)} {_RELAY} {line}"

    def two_iso_stamps(entry: Entry) -> str:
        sent = parts(entry)
        line = f"{sent['stamp']} {sent['host']} {sent['rest']}"
        return f"{iso(entry.time_us + _DELAY_US)} {_RELAY} {line}"

    def pri_inside(entry: Entry) -> str:
        return f"{bsd.whole(entry.time_us + _DELAY_US)} {_RELAY} {wire(entry)}"

    def agent(entry: Entry) -> str:
        head = f"<13>{bsd.whole(entry.time_us + _DELAY_US)} {host.label} {log_writer.program}"
        return f"{head}: {tailed(entry)}"

    def json(entry: Entry) -> str:
        read_at = iso(entry.time_us + _DELAY_US)
        return orjson.dumps({"@timestamp": read_at, field: wire(entry)}).decode()

    tailed = file_speller(host, log_writer.program)
    if host.relay == "agent" and log_writer.program not in _TAILED:
        return wire
    spells = {"": wire, "rsyslog": rsyslog, "two_stamps": two_stamps, "agent": agent, "json": json,
              "two_iso_stamps": two_iso_stamps, "pri_inside": pri_inside}  # fmt: skip
    return spells[host.relay]
