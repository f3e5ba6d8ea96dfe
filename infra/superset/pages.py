"""Pages of stunwatch that Superset serves, behind its login.

    /entity/<kind>?…     redirects to one VM, datastore, LUN or host (entity_links.py)
    /incident/<id>       the report of an incident, as `stunwatch report` writes it

Both only read. Like the charts, a report queries ClickHouse as the user `reader`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, wraps
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from entity_links import MOST_NAMES, BadLinkError, dashboard_address
from flask import Blueprint, Flask, Response, make_response, redirect, request
from flask_talisman import Talisman
from secret_files import secret

if TYPE_CHECKING:
    from stunwatch.clickhouse import ClickHouse

DATABASE = "stunwatch"
"""The database of the assets. Users with access to its data can read reports."""

ALL_NAMES = """
    WITH full AS (SELECT host FROM host_aliases WHERE alias IN {names:Array(String)})
    SELECT host FROM full
    UNION DISTINCT
    SELECT alias FROM host_aliases WHERE host IN full OR host IN {names:Array(String)}
"""
"""All names of hosts, full names first."""

REPORT_KEPT_S = 60
"""How long a report is cached, for all users."""

WAIT_S = 30
"""How long a request waits while another report is created. Then it fails with status 503."""

REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""A report contains text from logs, styles and a drawing, and loads nothing else."""

of_a_report = Talisman()(
    content_security_policy=REPORT_POLICY,
    content_security_policy_nonce_in=[],
    frame_options="DENY",
)
"""Decorator for views: Superset's Talisman sends these headers instead of its own."""

pages = Blueprint("stunwatch", __name__)
_one_at_a_time = threading.Lock()


def add_pages(app: Flask) -> None:
    """Add these pages to Superset."""
    app.register_blueprint(pages)


def _for_viewers(view: Callable[..., Response]) -> Callable[..., Response]:
    """Redirect users who are not logged in to the login, and refuse those without data access."""

    @wraps(view)
    def checked(**arguments: Any) -> Response:
        from flask_login import current_user  # noqa: PLC0415 (Superset's parts need the app)
        from superset import appbuilder, db, security_manager  # noqa: PLC0415
        from superset.models.core import Database  # noqa: PLC0415

        if not current_user.is_authenticated:
            return redirect(appbuilder.get_url_for_login_with(request.url))  # type: ignore[return-value]
        found = db.session.query(Database).filter_by(database_name=DATABASE).one_or_none()
        if found is None or not security_manager.can_access_database(found):
            return _said(403, "Your role may not see the data. Ask for the role ops_viewer.")
        return view(**arguments)

    return checked


@pages.get("/entity/<kind>")
@_for_viewers
def entity(kind: str) -> Response:
    """Redirect to the dashboard `entities` with the filters of the link."""
    values = request.args.to_dict(flat=False)
    try:
        if hosts := values.get("host"):
            values["host"] = _all_names(hosts)
        return redirect(dashboard_address(kind, values))  # type: ignore[return-value]
    except BadLinkError as error:
        return _said(404, f"This link is wrong: {error}.")


@pages.get("/incident/<uuid:incident_id>")
@of_a_report
@_for_viewers
def incident(incident_id: UUID) -> Response:
    """Return the report of an incident."""
    from superset.extensions import cache_manager  # noqa: PLC0415

    _load_stunwatch()
    from stunwatch.errors import UserError  # noqa: PLC0415 (loaded above)

    kept_as = f"stunwatch_report_{incident_id}"
    page = cache_manager.data_cache.get(kept_as)
    if page is None:
        # Drawing changes settings of the whole process, and a report runs 16 queries.
        if not _one_at_a_time.acquire(timeout=WAIT_S):
            return _said(503, "Other reports are being made. Try again in a minute.")
        try:
            page = _report(incident_id)
        except UserError as error:
            return _said(503, f"Cannot make the report: {error}")
        finally:
            _one_at_a_time.release()
        cache_manager.data_cache.set(kept_as, page, timeout=REPORT_KEPT_S)
    if not page:
        return _said(404, f"There is no incident {incident_id}.")
    response = make_response(page)
    response.headers["Content-Type"] = "text/html; charset=utf-8"
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _all_names(hosts: list[str]) -> list[str]:
    """Return these names of a host and its other names.

    The folder of a host's logs can have another name than the host's own lines.
    """
    _load_stunwatch()
    from stunwatch.errors import UserError  # noqa: PLC0415 (loaded above)

    try:
        found = _reader().rows(ALL_NAMES, {"names": hosts})
    except UserError:
        return hosts
    others = [name for (name,) in found if name not in hosts]
    return [*hosts, *others][: max(len(hosts), MOST_NAMES)]


def _reader() -> ClickHouse:
    """Return a ClickHouse client with the same permissions as the charts."""
    from stunwatch.clickhouse import ClickHouse  # noqa: PLC0415 (loaded by its callers)

    return ClickHouse(
        os.environ["STUNWATCH_CLICKHOUSE_HOST"],
        int(os.environ["STUNWATCH_CLICKHOUSE_HTTP_PORT"]),
        "reader",
        secret("STUNWATCH_CLICKHOUSE_READER_PASSWORD"),
        timeout_s=60,
    )


def _report(incident_id: UUID) -> str:
    """Create the report; return "" if there is no such incident. Raises UserError."""
    # matplotlib caches its list of fonts here.
    fonts = Path(os.environ["STUNWATCH_HOME"]) / "superset" / "matplotlib"
    os.environ.setdefault("MPLCONFIGDIR", str(fonts))

    from stunwatch.report.contents import gather  # noqa: PLC0415 (loaded above)
    from stunwatch.report.page import render  # noqa: PLC0415 (slow to import)

    reader = _reader()
    known = "SELECT count() FROM incidents WHERE incident_id = {incident:UUID}"
    if reader.rows(known, {"incident": incident_id}) == [(0,)]:
        return ""
    return render(gather(reader, incident_id, datetime.now(UTC)), ZoneInfo("UTC"))


@cache
def _load_stunwatch() -> None:
    """Make the package `stunwatch` importable, and nothing else from its folder.

    Superset has its own environment. The folder of `stunwatch` can contain other packages
    (site-packages, if the project is installed), so it is not added to the path.
    """
    root = Path(__file__).resolve().parents[2]
    beside = root / "stunwatch"
    package = beside if beside.is_dir() else root.parent
    found = util.spec_from_file_location(
        "stunwatch", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert found is not None
    assert found.loader is not None
    module = util.module_from_spec(found)
    sys.modules["stunwatch"] = module
    found.loader.exec_module(module)


def _said(status: int, text: str) -> Response:
    response = make_response(f"{text}\n", status)
    response.headers["Content-Type"] = "text/plain; charset=utf-8"
    return response
