"""Reads and writes the files of `infra/superset/assets/`, in Superset's export format.

    databases/<name>.yaml    datasets/<view>.yaml
    charts/<dashboard>/<what it shows>.yaml    dashboards/<dashboard>.yaml
    common.css    what the CSS of every dashboard begins with; their files have the rest

Files refer to each other by uuid. A `uuid` never changes; a file's name may.
"""

from __future__ import annotations

import copy
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import yaml

from stunwatch.errors import UserError
from stunwatch.ingest import yaml_file
from stunwatch.settings import ROOT

ASSETS = ROOT / "infra" / "superset" / "assets"

Content = dict[str, Any]
Files = dict[str, Content]
"""Content by path below the folder."""

COLUMN: Content = {
    "verbose_name": None,
    "is_dttm": False,
    "is_active": True,
    "groupby": True,
    "filterable": True,
    "expression": None,
    "description": None,
    "python_date_format": None,
    "extra": None,
}
METRIC: Content = {
    "verbose_name": None,
    "description": None,
    "d3format": None,
    "currency": None,
    "metric_type": None,
    "warning_text": None,
    "extra": None,
}
KINDS: dict[str, Content] = {
    "databases": {
        "cache_timeout": None,
        "expose_in_sqllab": True,
        "allow_run_async": False,
        "allow_ctas": False,
        "allow_cvas": False,
        "allow_dml": False,
        "allow_csv_upload": False,
        "impersonate_user": False,
        "configuration_method": "sqlalchemy_form",
    },
    "datasets": {
        "description": None,
        "offset": 0,
        "cache_timeout": None,
        "fetch_values_predicate": None,
        "filter_select_enabled": True,
        "normalize_columns": False,
        "always_filter_main_dttm": False,
        "template_params": None,
        "params": None,
        "extra": None,
    },
    "charts": {
        "description": None,
        "cache_timeout": None,
        "certified_by": None,
        "certification_details": None,
    },
    "dashboards": {
        "description": None,
        "css": None,
        "certified_by": None,
        "certification_details": None,
    },
}
"""Defaults of values that a file omits.

An import leaves omitted values unchanged. The bundle therefore contains all values, so that values
set in a browser or by an older file do not stay.
"""


METADATA = {"version": "1.0.0", "type": "assets", "timestamp": "2026-01-01T00:00:00+00:00"}


def read(folder: Path = ASSETS) -> Files:
    """Read every file; the CSS of a dashboard is whole, with `common.css`.

    Raises:
        UserError: a file is not valid YAML, or has no uuid.
    """
    files = {}
    shared = common_css(folder)
    for path in sorted(folder.rglob("*.yaml")):
        name = str(path.relative_to(folder))
        try:
            content = yaml_file.read(path)
        except yaml.YAMLError as error:
            raise UserError(f"{path} is not valid YAML: {error}") from error
        if not isinstance(content, dict) or "uuid" not in content:
            raise UserError(
                f"{path} has no uuid. Add one, or export the file with `stunwatch dashboards pull`."
            )
        if name.startswith("dashboards/"):
            content["css"] = shared + content.get("css", "")
        files[name] = content
    return files


def common_css(folder: Path = ASSETS) -> str:
    """The CSS that all dashboards share."""
    return (folder / "common.css").read_text()


def as_file(content: Content, shared_css: str) -> str:
    """What the file of an asset contains: `read` adds the shared CSS again."""
    css = content.get("css", "")
    whole = {**content, "css": css.removeprefix(shared_css)}
    return write(whole if whole["css"] else {key: whole[key] for key in content if key != "css"})


def fingerprint(files: Files) -> str:
    """Return a hash of all files."""
    return hashlib.sha256(write(files).encode()).hexdigest()


def write(content: object) -> str:
    """Format YAML as in the repository: keys in the given order, long texts as blocks."""
    return yaml.dump(
        content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=96, indent=2
    )


def bundle(files: Files) -> bytes:
    """Return the zip file that Superset imports."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("assets/metadata.yaml", write(METADATA))
        for name, content in _numbered(files).items():
            archive.writestr(f"assets/{name}", write(_complete(name, content)))
    return buffer.getvalue()


def _complete(name: str, content: Content) -> Content:
    """Add the default values that a file omits."""
    whole = KINDS[name.split("/", maxsplit=1)[0]] | content
    for part, defaults in (("columns", COLUMN), ("metrics", METRIC)):
        if part in whole:
            whole[part] = [defaults | each for each in whole[part]]
    return whole


def _numbered(files: Files) -> Files:
    """Number the charts of each dashboard. The import requires numbers, but assigns its own."""
    charts = [each["uuid"] for each in of_kind(files, "charts").values()]
    numbered = copy.deepcopy(files)
    for dashboard in of_kind(numbered, "dashboards").values():
        for part in dashboard["position"].values():
            if isinstance(part, dict) and part["type"] == "CHART":
                part["meta"]["chartId"] = charts.index(part["meta"]["uuid"]) + 1
    return numbered


def of_kind(files: Files, kind: str) -> Files:
    """Return the files below one folder: databases, datasets, charts or dashboards."""
    return {name: each for name, each in files.items() if name.split("/")[0] == kind}


class _Dumper(yaml.SafeDumper):
    """Indents lists, and writes multi-line texts as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
