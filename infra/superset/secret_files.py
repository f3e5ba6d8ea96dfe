"""Read Superset's passwords and keys from files, because lists of processes show variables."""

from __future__ import annotations

import os
from pathlib import Path

CONTAINERS = Path("/run/secrets")


def secret(name: str, default: str | None = None) -> str:
    """Return the content of the file <name>_FILE or /run/secrets/<name>, or the variable <name>.

    Raises:
        KeyError: none of these exists, and there is no default.
    """
    named = os.environ.get(f"{name}_FILE")
    path = Path(named) if named else CONTAINERS / name
    if named or path.exists():
        return path.read_text().strip()
    return os.environ[name] if default is None else os.environ.get(name, default)
