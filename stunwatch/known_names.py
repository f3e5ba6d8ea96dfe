"""Checks whether logs, events or inventory contain a name that a user typed; suggests others."""

from __future__ import annotations

from collections.abc import Mapping

from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError, did_you_mean

KINDS = ("host", "vm", "datastore", "device")

_NOUNS = {"host": "host", "vm": "VM", "datastore": "datastore", "device": "LUN or path"}

_SOURCES = {
    "host": (
        "SELECT toString(host) AS name FROM owners_seen_stored",
        "SELECT host AS name FROM host_aliases",
        "SELECT alias AS name FROM host_aliases",
        "SELECT arrayJoin(hosts) AS name FROM incidents",
    ),
    "vm": (
        "SELECT vm AS name FROM owners_seen_stored",
        "SELECT vm AS name FROM inventory_stored",
        "SELECT vm AS name FROM stuns_stored",
    ),
    "datastore": (
        "SELECT toString(datastore) AS name FROM owners_seen_stored",
        "SELECT arrayJoin([toString(datastore), toString(datastore_uuid)]) AS name"
        " FROM inventory_stored",
        "SELECT arrayJoin(datastores) AS name FROM incidents",
        "SELECT toString(datastore) AS name FROM path_events_stored",
        "SELECT toString(device) AS name FROM latency_episodes_stored"
        " WHERE object_class IN ('datastore', 'nfs_volume')",
    ),
    "device": (
        "SELECT toString(device) AS name FROM inventory_stored",
        "SELECT arrayJoin(other_names) AS name FROM inventory_stored",
        "SELECT arrayJoin(arrayConcat(devices, paths)) AS name FROM incidents",
        # Includes every LUN with a sample: one with little load has no baseline and no episode.
        "SELECT DISTINCT toString(device) AS name FROM latency_hours_stored",
        "SELECT toString(device) AS name FROM latency_episodes_stored",
        "SELECT toString(device) AS name FROM scsi_errors_stored",
        "SELECT arrayJoin([toString(device), toString(path)]) AS name FROM path_events_stored",
        "SELECT toString(device) AS name FROM reservation_conflicts_stored",
    ),
}
"""Queries that return all known names of a kind, in the column `name`."""

_WHOLE = "lowerUTF8(name) = lowerUTF8({typed:String})"
_HOST = "startsWith(concat(lower(name), '.'), concat(lower({typed:String}), '.'))"
"""`esx1` matches esx1.lab.example."""

_PART = "positionCaseInsensitiveUTF8(name, {typed:String}) > 0"

_MOST_ALIKE = 20


def why_unknown(reader: ClickHouse, kind: str, typed: str, *, is_part: bool = False) -> str:
    """Return an error that names similar names if a name is unknown; "" if it is known.

    `kind`: one of KINDS. `is_part`: a part of a name is enough.
    """
    names = " UNION ALL ".join(_SOURCES[kind])
    matches = _PART if is_part else _HOST if kind == "host" else _WHOLE
    if reader.rows(f"SELECT 1 FROM ({names}) WHERE {matches} LIMIT 1", {"typed": typed}):
        return ""
    candidates = "arrayJoin([name, splitByChar('.', name)[1]])" if kind == "host" else "name"
    alike = reader.rows(
        "SELECT candidate FROM ("
        f"SELECT DISTINCT {candidates} AS candidate"
        f" FROM ({names}) WHERE name != '')"
        " ORDER BY damerauLevenshteinDistance(lower(substring(candidate, 1, 100)),"
        " lower(substring({typed:String}, 1, 100))) LIMIT {most:UInt32}",
        {"typed": typed, "most": _MOST_ALIKE},
    )
    return (
        f"No log, event or inventory has the {_NOUNS[kind]} {typed}."
        f"{did_you_mean(typed, [name for (name,) in alike])}"
    )


def check_parameters(
    reader: ClickHouse, meanings: Mapping[str, str], given: Mapping[str, str]
) -> None:
    """Check the names among the parameters of an investigation.

    An unknown name is an error. Otherwise the investigation would return no rows, which looks as if
    nothing were wrong.

    Args:
        reader: the client that runs the queries.
        meanings: the meaning of each parameter, by name.
        given: the parameters that the user gave.

    Raises:
        UserError: a name is unknown.
    """
    for parameter, typed in given.items():
        kinds = _kinds(parameter, meanings.get(parameter, ""))
        if not typed or not kinds:
            continue
        is_part = meanings[parameter].startswith("part of")
        unknown = [why_unknown(reader, kind, typed, is_part=is_part) for kind in kinds]
        if all(unknown):
            raise UserError(f"--param {parameter}={typed}: {unknown[0]}")


def _kinds(parameter: str, meaning: str) -> tuple[str, ...]:
    """Return the kinds of name that a parameter accepts."""
    if parameter in KINDS:
        return (parameter,)
    return ("datastore", "device") if "datastore's or LUN's name" in meaning else ()
