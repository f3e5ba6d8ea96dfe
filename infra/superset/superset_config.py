"""Superset's configuration, which Superset imports by the name of this module.

In local mode, stunwatch/local/superset.py sets the variables: metadata in SQLite, caches in files.
In production the same variables name Postgres and Redis.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import grains
from colours import LATENCY_SCHEME, SCHEME
from flask import Flask, request, session
from gaps import filled
from secret_files import secret
from sqlalchemy.engine.url import URL
from superset.config import THEME_DEFAULT as DEFAULT
from superset.utils.log import AbstractEventLogger, DBEventLogger

HOME = Path(os.environ["STUNWATCH_HOME"]) / "superset"
REDIS = secret("STUNWATCH_SUPERSET_REDIS", "")
"""For example redis://redis:6379/0. If empty, caches are files on this machine."""

SPINNER = """<svg xmlns="http://www.w3.org/2000/svg" width="48" height="48" viewBox="0 0 48 48">
<g fill="#8a8a8a"><circle cx="10" cy="24" r="4"/><circle cx="24" cy="24" r="4"/>
<circle cx="38" cy="24" r="4"/></g></svg>"""

SECRET_KEY = secret("STUNWATCH_SUPERSET_SECRET_KEY")
METADATA = secret("STUNWATCH_SUPERSET_METADATA", "")
SQLALCHEMY_DATABASE_URI = METADATA or f"sqlite:///{HOME / 'metadata.db'}"


class NoEvents(AbstractEventLogger):
    """Log no clicks: each would be a transaction, and SQLite runs one at a time."""

    def log(self, *_: object, **__: object) -> None:
        """Do nothing."""


EVENT_LOGGER = DBEventLogger() if METADATA else NoEvents()

APP_NAME = "stunwatch"
EXTRA_CATEGORICAL_COLOR_SCHEMES = [SCHEME]
EXTRA_SEQUENTIAL_COLOR_SCHEMES = [LATENCY_SCHEME]

# Animations redraw 60 times per second, which delays the charts that are still loading.
THEME_DEFAULT = {
    **DEFAULT,
    "token": {**DEFAULT["token"], "motion": False, "brandSpinnerSvg": SPINNER},
    "echartsOptionsOverrides": {"animation": False},
}

# "Last 7 days" ends now, not at midnight.
DEFAULT_RELATIVE_START_TIME = "now"
DEFAULT_RELATIVE_END_TIME = "now"

TIME_GRAIN_ADDONS = grains.ADDONS
TIME_GRAIN_ADDON_EXPRESSIONS = grains.EXPRESSIONS

FEATURE_FLAGS = {
    "DASHBOARD_CROSS_FILTERS": True,
    # A chart queries its rows when a user scrolls to it.
    "DASHBOARD_VIRTUALIZATION_DEFER_DATA": True,
    "ALERT_REPORTS": False,
    "ENABLE_TEMPLATE_PROCESSING": False,
    # For the chart pop_kpi, a number compared with that of a week earlier.
    "CHART_PLUGINS_EXPERIMENTAL": True,
}

# No access without a login, and no requests to other sites.
PUBLIC_ROLE_LIKE = None
AUTH_USER_REGISTRATION = False
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = os.environ.get("STUNWATCH_SUPERSET_HTTPS", "") == "1"
ENABLE_PROXY_FIX = SESSION_COOKIE_SECURE
WTF_CSRF_ENABLED = True
# Superset's default policy permits a tracking pixel of its vendor, and maps from other sites.
OWN = ["'self'"]
TALISMAN_CONFIG = {
    "content_security_policy": {
        "base-uri": OWN,
        "default-src": OWN,
        "img-src": [*OWN, "blob:", "data:"],
        "worker-src": [*OWN, "blob:"],
        "object-src": "'none'",
        "style-src": [*OWN, "'unsafe-inline'"],
        "script-src": [*OWN, "'strict-dynamic'"],
    },
    "content_security_policy_nonce_in": ["script-src"],
    "force_https": False,
    "session_cookie_secure": SESSION_COOKIE_SECURE,
}
FAB_ADD_SECURITY_API = True

SUPERSET_WEBSERVER_TIMEOUT = 120
ROW_LIMIT = 10_000
SQL_MAX_ROW = 100_000
LOG_LEVEL = "WARNING"


def _cache(name: str, lifetime: timedelta) -> dict[str, Any]:
    kept_for = {"CACHE_DEFAULT_TIMEOUT": int(lifetime.total_seconds())}
    if REDIS:
        place = {"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": REDIS}
        return kept_for | place | {"CACHE_KEY_PREFIX": f"stunwatch_{name}_"}
    place = {"CACHE_TYPE": "FileSystemCache", "CACHE_DIR": str(HOME / "caches" / name)}
    return kept_for | place | {"CACHE_THRESHOLD": 2000}


CACHE_CONFIG = _cache("metadata", timedelta(days=1))
# Two users with the same dashboard share one query. No data is older than the refresh interval.
DATA_CACHE_CONFIG = _cache("data", timedelta(seconds=30))
FILTER_STATE_CACHE_CONFIG = _cache("filters", timedelta(days=90))
EXPLORE_FORM_DATA_CACHE_CONFIG = _cache("explore", timedelta(days=7))


def SQL_QUERY_MUTATOR(sql: str, **_: object) -> str:
    """Add the empty hours and days to the query of a time chart."""
    return filled(sql)


def DB_CONNECTION_MUTATOR(
    uri: URL, params: dict[str, Any], *_: object
) -> tuple[URL, dict[str, Any]]:
    """Replace the host `stunwatch` of the database asset by this installation's ClickHouse.

    So neither the repository nor Superset's metadata contains an address or a password.
    """
    if uri.host == "stunwatch":
        uri = uri.set(
            host=os.environ["STUNWATCH_CLICKHOUSE_HOST"],
            port=int(os.environ["STUNWATCH_CLICKHOUSE_HTTP_PORT"]),
            password=secret("STUNWATCH_CLICKHOUSE_READER_PASSWORD"),
        )
    return uri, params


def FLASK_APP_MUTATOR(app: Flask) -> None:
    """Add the project's pages, and patch what Superset has no setting for."""
    from pages import add_pages  # noqa: PLC0415 (reads this configuration)

    add_pages(app)
    _quote_as_the_driver_does()
    _say_what_is_refused(app)
    _leave_a_login_alone(app)
    _let_grains_follow_the_range()


def _quote_as_the_driver_does() -> None:
    """Make calculated columns, such as links, work in tables of single rows.

    Superset looks up a column name quoted by sqlglot in a list of names quoted by the driver. These
    differ: sqlglot writes "vm", the driver `vm`.
    """
    from sqlglot.dialects.clickhouse import ClickHouse  # noqa: PLC0415

    ClickHouse.IDENTIFIER_START = ClickHouse.IDENTIFIER_END = "`"


def _say_what_is_refused(app: Flask) -> None:
    """Return the cause and the file of a failed import, which Superset otherwise only logs."""
    from superset.commands.exceptions import (  # noqa: PLC0415 (reads this configuration)
        CommandInvalidError,
        ImportFailedError,
    )

    @app.errorhandler(ImportFailedError)
    def say_why(error: ImportFailedError) -> tuple[dict[str, Any], int]:
        cause = error.__cause__
        faults = cause.normalized_messages() if isinstance(cause, CommandInvalidError) else {}
        reason = str(error) if faults or cause is None else f"{type(cause).__name__}: {cause}"
        return {"errors": [{"message": reason, "extra": faults}]}, 422


def _leave_a_login_alone(app: Flask) -> None:
    """Set no cookie in the response to telemetry from the login page.

    The page sends telemetry one second after it was opened. If the response arrived after the
    login, its anonymous session cookie would replace the cookie of the login.
    """

    @app.before_request
    def nobody_yet() -> tuple[str, int] | None:
        return ("", 204) if request.path == "/superset/log/" and "_user_id" not in session else None


def _let_grains_follow_the_range() -> None:
    """Replace the time grain `auto` in every query. Superset has no setting for it."""
    from superset.common.query_object import QueryObject  # noqa: PLC0415
    from superset.common.query_object_factory import QueryObjectFactory  # noqa: PLC0415

    create = QueryObjectFactory.create

    def create_with_grain(self: QueryObjectFactory, *given: Any, **named: Any) -> QueryObject:
        query = create(self, *given, **named)
        grains.choose(query)
        return query

    QueryObjectFactory.create = create_with_grain
