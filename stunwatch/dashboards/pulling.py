"""Writes changes made in a browser to the repository, with a small diff."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from stunwatch.dashboards import assets, ranges
from stunwatch.dashboards.api import Superset, administrator
from stunwatch.dashboards.assets import ASSETS, Content, Files
from stunwatch.settings import Settings

NOISE = {"datasource", "slice_id", "url_params", "dashboards", "chartId", "chartsInScope"} | {
    "query_context",
    "tabsInScope",
}
"""Keys with ids, or with values that Superset derives."""

NAMED_BY = ("uuid", "id", "column_name", "metric_name")
"""Keys that identify the elements of a list."""


def pull(settings: Settings, folder: Path = ASSETS) -> list[str]:
    """Write the current state of all managed assets; return the names of the files that changed.

    Raises:
        UserError: Superset does not answer.
    """
    api = administrator(settings)
    known = assets.read(folder)
    names = {each["uuid"]: name for name, each in known.items()}
    changed = []
    for exported_as, content in exported(api, known).items():
        name = names.get(content["uuid"], exported_as)
        path = folder / name
        if known.get(name) != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(assets.as_file(content, assets.common_css(folder)))
            changed.append(name)
    return sorted(changed)


def exported(api: Superset, known: Files) -> Files:
    """Return all objects in Superset, in the format of the repository."""
    with zipfile.ZipFile(io.BytesIO(api.download("assets/export/"))) as archive:
        files = {
            each.partition("/")[2]: yaml.safe_load(archive.read(each))
            for each in archive.namelist()
            if each.endswith(".yaml") and not each.endswith("metadata.yaml")
        }
    uuids = {row["id"]: row["uuid"] for row in api.listed("chart", ("id", "uuid"))}
    by_uuid = {each["uuid"]: each for each in known.values()}
    return {
        name: normalised(name, content, uuids, by_uuid.get(content["uuid"], {}))
        for name, content in files.items()
        if "uuid" in content
    }


def normalised(name: str, content: Content, uuids: dict[int, str], known: Content) -> Content:
    """Remove ids, nulls, defaults and addresses; order keys as in the known file."""
    content = dict(content)
    if name.startswith("databases/"):
        # Each installation has its own address (superset_config.py).
        content["sqlalchemy_uri"] = known.get("sqlalchemy_uri", "")
    if name.startswith("charts/") and "annotation_layers" in (content.get("params") or {}):
        params = dict(content["params"])
        params["annotation_layers"] = [
            {**each, "value": uuids.get(each["value"], each["value"])}
            for each in params["annotation_layers"]
        ]
        content["params"] = params
    if name.startswith("dashboards/"):
        metadata = _dashboard_metadata(content.get("metadata") or {})
        # `apply` sets the range of all data if logs were only replayed; it is not a user's choice.
        if ranges.is_of_all_data(ranges.default_of(metadata)):
            metadata = ranges.opened_with(metadata, ranges.default_of(known.get("metadata", {})))
        content["metadata"] = metadata
    for part, defaults in (("columns", assets.COLUMN), ("metrics", assets.METRIC)):
        if part in content:
            content[part] = [_without(each, defaults) for each in content[part]]
    content = _without(content, assets.KINDS[name.split("/", maxsplit=1)[0]])
    ordered: Content = _ordered(_cleaned(content, known), known)
    return ordered


def _without(content: Content, defaults: Content) -> Content:
    absent = object()
    return {key: each for key, each in content.items() if each != defaults.get(key, absent)}


def _dashboard_metadata(metadata: Content) -> Content:
    """Remove the values that Superset derives from the charts."""
    worked_out = {
        "chart_configuration",
        "global_chart_configuration",
        "map_label_colors",
        "shared_label_colors",
    }
    return {key: value for key, value in metadata.items() if key not in worked_out}


def _cleaned(value: Any, like: Any) -> Any:
    """Remove ids and empty values, except those that the known value has."""
    if isinstance(value, dict):
        known = like if isinstance(like, dict) else {}
        return {
            key: _cleaned(each, known.get(key))
            for key, each in value.items()
            if key not in NOISE and (key in known or each not in (None, "", [], {}))
        }
    if isinstance(value, list):
        return [_cleaned(each, other) for each, other in _paired(value, like)]
    return value


def _ordered(value: Any, like: Any) -> Any:
    """Order a value like the known value, new parts last, so that the diff stays small."""
    if isinstance(value, dict) and isinstance(like, dict):
        keys = [*(key for key in like if key in value), *sorted(set(value) - set(like))]
        return {key: _ordered(value[key], like.get(key)) for key in keys}
    if isinstance(value, list):
        places = {_name_of(each): place for place, each in enumerate(like or [])}
        if None not in {_name_of(each) for each in value}:
            value = sorted(value, key=lambda each: places.get(_name_of(each), len(places)))
        return [_ordered(each, other) for each, other in _paired(value, like)]
    return value


def _paired(values: list[Any], like: Any) -> Iterator[tuple[Any, Any]]:
    """Pair each element with the known one of the same name, or index if it has no name."""
    others = like if isinstance(like, list) else []
    named = {_name_of(each): each for each in others}
    for place, each in enumerate(values):
        name = _name_of(each)
        if name is None:
            yield each, others[place] if place < len(others) else None
        else:
            yield each, named.get(name)


def _name_of(value: Any) -> str | None:
    if isinstance(value, dict):
        return next((str(value[key]) for key in NAMED_BY if key in value), None)
    return None
