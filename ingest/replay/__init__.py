"""Files, folders, archives and vm-support bundles become the records that a live line becomes.

with plan(paths, options) as what:
    for file in what.files:
        reading = Reading(file, run_id, options)
        for messages in reading:
            ...  # produce
"""

from ingest.replay.reading import BACKFILL, ESXTOP, REJECTED, Message, Reading, records
from ingest.replay.sources import Options, Plan, SourceFile, plan
from ingest.replay.streams import Problem

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
