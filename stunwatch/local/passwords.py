"""Passwords and keys that are generated once."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

SECRET = re.compile(r"^STUNWATCH_\w*(PASSWORD|SECRET_KEY)$")
"""Variables that contain a secret. The name of a variable with a secret's file ends in _FILE."""


def made_once(path: Path) -> str:
    """Return the content of a file of mode 600; generate it if it is missing."""
    if not path.exists():
        # No line feed: Kafka's DirectoryConfigProvider returns the whole file.
        write_secret(path, secrets.token_urlsafe(24))
    return path.read_text().strip()


def write_secret(path: Path, text: str) -> None:
    """Write a file of mode 600 atomically."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.rename(path)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove passwords and keys, which every component would otherwise have in its environment."""
    return {name: value for name, value in environment.items() if not SECRET.search(name)}
