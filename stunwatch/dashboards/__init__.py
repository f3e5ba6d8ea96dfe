"""Dashboards as code: `infra/superset/assets/` defines what Superset shows."""

from __future__ import annotations

from stunwatch.dashboards.applying import Applied, apply, apply_if_changed, set_ranges
from stunwatch.dashboards.pulling import pull

__all__ = ["Applied", "apply", "apply_if_changed", "pull", "set_ranges"]
