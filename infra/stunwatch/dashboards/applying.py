"""Brings Superset to what the repository says, and takes away what it no longer says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stunwatch.dashboards import assets
from stunwatch.dashboards.api import Superset, administrator
from stunwatch.dashboards.assets import Files
from stunwatch.errors import UserError
from stunwatch.settings import Settings

VIEWERS = "ops_viewer"
KINDS = {"dashboard": "dashboard_title", "chart": "slice_name", "dataset": "table_name"}
"""The API's name of a kind → the column that names one; in the order in which they can go."""


@dataclass(frozen=True)
class Applied:
    """What was done: how many files were brought in, and the names of what was removed."""

    files: int
    removed: tuple[str, ...]


def apply(settings: Settings, files: Files | None = None) -> Applied:
    """Import every file and remove what was imported before and is no file any more.

    Raises:
        UserError: Superset does not answer, or refuses; then nothing was imported.
    """
    files = assets.read() if files is None else files
    api = administrator(settings)
    without_layers, layers = _split(files)
    fields = {"passwords": "{}", "formData": "true"}
    api.upload("assets/import/", "bundle", assets.bundle(without_layers), fields)
    _annotate(api, layers)
    _let_look(api, files)
    memory = _Memory(settings)
    removed = _remove(api, memory.uuids() - {each["uuid"] for each in files.values()})
    memory.keep(files)
    return Applied(len(files), tuple(removed))


def apply_if_changed(settings: Settings) -> None:
    """Apply what differs from what was applied last; what was changed in a browser stays."""
    files = assets.read()
    if _Memory(settings).fingerprint() != assets.fingerprint(files):
        apply(settings, files)


class _Memory:
    """What was applied last, beside the metadata that it was applied to.

    So what people made in the browser is never taken for what the repository has dropped.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = settings.home / "superset" / "applied.json"
        self._content: dict[str, Any] = {"fingerprint": "", "uuids": []}
        if self._path.exists():
            self._content = json.loads(self._path.read_text())

    def fingerprint(self) -> str:
        return str(self._content["fingerprint"])

    def uuids(self) -> set[str]:
        return set(self._content["uuids"])

    def keep(self, files: Files) -> None:
        uuids = sorted(each["uuid"] for each in files.values())
        content = {"fingerprint": assets.fingerprint(files), "uuids": uuids}
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path.write_text(json.dumps(content))


def _split(files: Files) -> tuple[Files, dict[str, list[dict[str, Any]]]]:
    """Take the annotation layers out: an import would drop them. Chart's uuid → its layers."""
    plain, layers = {}, {}
    for name, content in files.items():
        if found := content.get("params", {}).get("annotation_layers"):
            layers[content["uuid"]] = found
            plain[name] = {**content, "params": {**content["params"], "annotation_layers": []}}
        else:
            plain[name] = content
    return plain, layers


def _remove(api: Superset, dropped: set[str]) -> list[str]:
    """Remove what was applied before and is no file any more; return what it was called."""
    removed = []
    for kind, title in KINDS.items():
        if dropped:
            for row in api.listed(kind, ("id", "uuid", title)):
                if row["uuid"] in dropped:
                    api.delete(f"{kind}/{row['id']}")
                    removed.append(f"{kind} {row[title]}")
    return removed


def _annotate(api: Superset, layers: dict[str, list[dict[str, Any]]]) -> None:
    """Give charts their annotation layers: a layer's `value` is the uuid of the table it reads."""
    if not layers:
        return
    ids = {row["uuid"]: row["id"] for row in api.listed("chart", ("id", "uuid"))}
    sources = {each["value"] for wanted in layers.values() for each in wanted}
    if unknown := sources - set(ids):
        raise UserError(f"Annotations read the chart {unknown.pop()}: no file has that uuid.")
    for uuid in sources:
        _let_read(api, ids[uuid])
    for uuid, wanted in layers.items():
        params = json.loads(api.get(f"chart/{ids[uuid]}")["result"]["params"])
        params["annotation_layers"] = [{**each, "value": ids[each["value"]]} for each in wanted]
        api.put(f"chart/{ids[uuid]}", {"params": json.dumps(params)})


def _let_read(api: Superset, table: int) -> None:
    """Give a table its query as the browser would write it: annotations are read by it."""
    params = json.loads(api.get(f"chart/{table}")["result"]["params"])
    kind, _, dataset = params["datasource"].partition("__")[::-1]
    query = {
        "columns": params["all_columns"],
        "metrics": [],
        "orderby": [json.loads(each) for each in params["order_by_cols"]],
        "row_limit": params["row_limit"],
    }
    context = {
        "datasource": {"id": int(dataset), "type": kind},
        "force": False,
        "queries": [query],
        "form_data": params,
        "result_format": "json",
        "result_type": "full",
    }
    api.put(f"chart/{table}", {"query_context": json.dumps(context)})


def _let_look(api: Superset, files: Files) -> None:
    """Let the role that looks at dashboards read the databases that they are made of."""
    names = {each["database_name"] for each in assets.of_kind(files, "databases").values()}
    columns = ("id", "permission.name", "view_menu.name")
    wanted = {
        row["id"]
        for row in api.listed("security/permissions-resources", columns)
        if row["permission"]["name"] == "database_access"
        and any(row["view_menu"]["name"].startswith(f"[{name}].") for name in names)
    }
    roles = {row["name"]: row["id"] for row in api.listed("security/roles", ("id", "name"))}
    role = roles[VIEWERS]
    has = {row["id"] for row in api.get(f"security/roles/{role}/permissions/")["result"]}
    if not wanted <= has:
        api.post(
            f"security/roles/{role}/permissions",
            {"permission_view_menu_ids": sorted(has | wanted)},
        )
