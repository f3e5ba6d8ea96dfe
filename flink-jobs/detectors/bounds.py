"""Limits on a tracker's state for one log key, whatever names and times its lines contain."""

from __future__ import annotations

from collections import Counter

MOST_KEYS = 8_192
"""Most keys (devices, paths, volumes, …) per tracker. A host has at most 1,024 LUNs and 4,096 paths
(ESXi 8)."""

MOST_EPISODES = 256
"""Most episodes of one key per tracker."""

EVICTED: Counter[str] = Counter()
"""Evictions by this process because of a limit, by the kind of state. Exported as a metric."""
