"""The version of stunwatch that is running."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def described() -> str:
    """Return `0.1.0`; in a checkout with the commit: `0.1.0 (commit 1a2b3c4)`."""
    number = version("stunwatch")
    commit = _commit()
    return f"{number} (commit {commit})" if commit else number


def _commit() -> str:
    """Return the short commit, with `-dirty` if files differ; empty without git or a checkout."""
    if not (CHECKOUT / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
