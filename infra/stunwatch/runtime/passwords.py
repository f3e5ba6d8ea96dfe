"""Passwords and keys that are made once and stay."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def made_once(path: Path) -> str:
    """Return what a file of mode 600 holds; make it where there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.touch(mode=0o600)
        # No line feed: Kafka's DirectoryConfigProvider takes all that is in a file.
        draft.write_text(secrets.token_urlsafe(24))
        draft.rename(path)
    return path.read_text().strip()
