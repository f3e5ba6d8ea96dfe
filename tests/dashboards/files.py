"""The files of the dashboards, read once for all tests of a run."""

from __future__ import annotations

from stunwatch.dashboards import assets

FILES = assets.read()


def tabs(slug: str) -> list[str]:
    """Return the ids of a dashboard's tabs; one empty id if it has none."""
    [dashboard] = [
        each for each in assets.of_kind(FILES, "dashboards").values() if each["slug"] == slug
    ]
    return dashboard["position"].get("TABS-1", {"children": [""]})["children"]
