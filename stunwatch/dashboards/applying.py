"""Updates Superset from the files of the repository, and removes objects without a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stunwatch.dashboards import assets, ranges
from stunwatch.dashboards.api import Superset, administrator
from stunwatch.dashboards.assets import Files
from stunwatch.errors import UserError
from stunwatch.local import superset
from stunwatch.settings import Settings

VIEWERS = "ops_viewer"
KINDS = {"dashboard": "dashboard_title", "chart": "slice_name", "dataset": "table_name"}
"""The API's kinds of objects and the column with their title, in the order of removal."""


@dataclass(frozen=True)
class Applied:
    """The result: the number of files imported, and the names of the objects removed."""

    files: int
    removed: tuple[str, ...]


def apply(settings: Settings, files: Files | None = None) -> Applied:
    """Import every file, and remove objects that were imported earlier but have no file now.

    Raises:
        UserError: Superset does not answer or rejects the import; then nothing was imported.
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
    span = ranges.of_all_data(settings)
    if span:
        _open_with(api, files, span)
    memory.keep(files, span)
    return Applied(len(files), tuple(removed))


def apply_if_changed(settings: Settings) -> None:
    """Apply the files if they differ from those applied last. Changes made in a browser stay."""
    files = assets.read()
    if _Memory(settings).fingerprint() != assets.fingerprint(files):
        apply(settings, files)
    else:
        set_ranges(settings, files)


def set_ranges(settings: Settings, files: Files | None = None) -> None:
    """Update the default time ranges of dashboards if the suitable range has changed.

    Other changes made in a browser stay.
    """
    memory = _Memory(settings)
    if (
        not memory.fingerprint()
        or not superset.is_wanted(settings)
        or superset.unhealthy_reason(settings)
    ):
        return
    span = ranges.of_all_data(settings)
    if span != memory.span():
        files = assets.read() if files is None else files
        _open_with(administrator(settings), files, span)
        memory.keep(files, span)


class _Memory:
    """The record of what was applied last, stored beside Superset's metadata.

    It distinguishes objects that users created in the browser from those removed from the
    repository.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = settings.home / "superset" / "applied.json"
        self._content: dict[str, Any] = {"fingerprint": "", "uuids": [], "span": ""}
        if self._path.exists():
            self._content |= json.loads(self._path.read_text())

    def fingerprint(self) -> str:
        return str(self._content["fingerprint"])

    def uuids(self) -> set[str]:
        return set(self._content["uuids"])

    def span(self) -> str:
        """The range of all data that dashboards open with; empty if each uses its file's range."""
        return str(self._content["span"])

    def keep(self, files: Files, span: str) -> None:
        uuids = sorted(each["uuid"] for each in files.values())
        content = {"fingerprint": assets.fingerprint(files), "uuids": uuids, "span": span}
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path.write_text(json.dumps(content))


def _split(files: Files) -> tuple[Files, dict[str, list[dict[str, Any]]]]:
    """Remove annotation layers, which an import would drop; return them by the chart's uuid."""
    plain, layers = {}, {}
    for name, content in files.items():
        if found := content.get("params", {}).get("annotation_layers"):
            layers[content["uuid"]] = found
            plain[name] = {**content, "params": {**content["params"], "annotation_layers": []}}
        else:
            plain[name] = content
    return plain, layers


def _remove(api: Superset, dropped: set[str]) -> list[str]:
    """Remove objects that have no file now; return their names."""
    removed = []
    for kind, title in KINDS.items():
        if dropped:
            for row in api.listed(kind, ("id", "uuid", title)):
                if row["uuid"] in dropped:
                    api.delete(f"{kind}/{row['id']}")
                    removed.append(f"{kind} {row[title]}")
    return removed


def _annotate(api: Superset, layers: dict[str, list[dict[str, Any]]]) -> None:
    """Add annotation layers to charts. A layer's `value` is the uuid of the table that it reads."""
    if not layers:
        return
    ids = {row["uuid"]: row["id"] for row in api.listed("chart", ("id", "uuid"))}
    sources = {
        each["value"] for wanted in layers.values() for each in wanted if _reads_a_table(each)
    }
    if unknown := sources - set(ids):
        raise UserError(
            f"Annotations use the chart {unknown.pop()}, but no file has its uuid. Correct it."
        )
    for uuid in sources:
        _let_read(api, ids[uuid])
    for uuid, wanted in layers.items():
        params = json.loads(api.get(f"chart/{ids[uuid]}")["result"]["params"])
        params["annotation_layers"] = [
            {**each, "value": ids[each["value"]]} if _reads_a_table(each) else each
            for each in wanted
        ]
        api.put(f"chart/{ids[uuid]}", {"params": json.dumps(params)})


def _open_with(api: Superset, files: Files, span: str) -> None:
    """Set the default range of every dashboard; if `span` is empty, the range of its file."""
    in_files = {
        each["uuid"]: ranges.default_of(each["metadata"])
        for each in assets.of_kind(files, "dashboards").values()
    }
    for row in api.listed("dashboard", ("id", "uuid")):
        if in_files.get(row["uuid"]):
            found = json.loads(api.get(f"dashboard/{row['id']}")["result"]["json_metadata"])
            metadata = ranges.opened_with(found, span or in_files[row["uuid"]])
            api.put(f"dashboard/{row['id']}", {"json_metadata": json.dumps(metadata)})


def _reads_a_table(layer: dict[str, Any]) -> bool:
    """True if a layer reads a table's rows; false for a formula, such as a limit."""
    return str(layer["annotationType"]) != "FORMULA"


def _let_read(api: Superset, table: int) -> None:
    """Store a table's query as the browser would, because annotations run that query."""
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
    """Give the viewers' role access to the databases of the dashboards."""
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
