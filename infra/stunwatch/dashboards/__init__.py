"""Dashboards as code: `infra/superset/assets/` is what Superset shows."""

from __future__ import annotations

from stunwatch.dashboards.applying import Applied, apply, apply_if_changed
from stunwatch.dashboards.pulling import pull

__all__ = ["Applied", "apply", "apply_if_changed", "pull"]
