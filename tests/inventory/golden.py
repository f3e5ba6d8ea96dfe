"""The cases of `tests/inventory/cases`: a host's outputs, and the expected items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from stunwatch.inventory.items import host_named_in, items_of
from stunwatch.inventory.outputs import outputs_in

CASES = sorted(path for path in Path(__file__).with_name("cases").iterdir() if path.is_dir())
UNNAMED = "esx00"
"""The host of outputs that do not contain its name."""
OBSERVED_AT_US = 1_336_000_000_000_000


def items_in(text: str) -> list[dict[str, Any]]:
    outputs = outputs_in(text)
    host = host_named_in(outputs) or UNNAMED
    return list(items_of(outputs, host, OBSERVED_AT_US, "case"))


def golden(case: Path) -> str:
    """Return one item per line, without ids and empty fields."""
    hidden = {"event_id", "detector", "revision", "is_deleted", "run_id", "observed_at"}
    lines = []
    for item in items_in((case / "input.txt").read_text()):
        shown = {
            name: value
            for name, value in item.items()
            if name not in hidden and value not in (None, "", [])
        }
        lines.append(orjson.dumps(shown).decode() + "\n")
    return "".join(lines)
