"""Replay converts files, folders, archives and vm-support bundles to the records of live lines.

with plan(paths, options) as what:
    for file in what.files:
        reading = Reading(file, run_id, options)
        for messages in reading:
            ...  # produce
"""

from stunwatch.ingest.replay.reading import BACKFILL, ESXTOP, REJECTED, Message, Reading, records
from stunwatch.ingest.replay.sources import Options, Plan, SourceFile, plan
from stunwatch.ingest.replay.streams import Problem

__all__ = [
    "BACKFILL",
    "ESXTOP",
    "REJECTED",
    "Message",
    "Options",
    "Plan",
    "Problem",
    "Reading",
    "SourceFile",
    "plan",
    "records",
]
