"""How Superset runs for stunwatch; Superset imports this module by its name.

Local mode sets the variables (infra/stunwatch/runtime/superset.py) and needs no other: metadata in
SQLite, caches in files. In production the same variables name Postgres and Redis.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from colours import SCHEME
from flask import Flask, request, session
from sqlalchemy.engine.url import URL
from superset.config import THEME_DEFAULT as DEFAULT
from superset.utils.log import AbstractEventLogger, DBEventLogger

HOME = Path(os.environ["STUNWATCH_HOME"]) / "superset"
REDIS = os.environ.get("STUNWATCH_SUPERSET_REDIS", "")
"""Such as redis://redis:6379/0; empty: caches are files, one machine's."""

SPINNER = """<svg xmlns="http://www.w3.org/2000/svg" width="48" height="48" viewBox="0 0 48 48">
<g fill="#8a8a8a"><circle cx="10" cy="24" r="4"/><circle cx="24" cy="24" r="4"/>
<circle cx="38" cy="24" r="4"/></g></svg>"""

SECRET_KEY = os.environ["STUNWATCH_SUPERSET_SECRET_KEY"]
METADATA = os.environ.get("STUNWATCH_SUPERSET_METADATA", "")
SQLALCHEMY_DATABASE_URI = METADATA or f"sqlite:///{HOME / 'metadata.db'}"


class NoEvents(AbstractEventLogger):
    """Writes down nobody's clicks: each would be a transaction, and SQLite has one at a time."""

    def log(self, *_: object, **__: object) -> None:
        """Do nothing."""


EVENT_LOGGER = DBEventLogger() if METADATA else NoEvents()

APP_NAME = "stunwatch"
EXTRA_CATEGORICAL_COLOR_SCHEMES = [SCHEME]

# What moves on a dashboard is drawn anew sixty times a second, while twelve charts wait for a turn.
THEME_DEFAULT = {
    **DEFAULT,
    "token": {**DEFAULT["token"], "motion": False, "brandSpinnerSvg": SPINNER},
    "echartsOptionsOverrides": {"animation": False},
}

# "Last 7 days" ends now, not at midnight.
DEFAULT_RELATIVE_START_TIME = "now"
DEFAULT_RELATIVE_END_TIME = "now"

FEATURE_FLAGS = {
    "DASHBOARD_CROSS_FILTERS": True,
    # A chart asks for its rows when somebody scrolls to it.
    "DASHBOARD_VIRTUALIZATION_DEFER_DATA": True,
    "ALERT_REPORTS": False,
    "ENABLE_TEMPLATE_PROCESSING": False,
}

# Nothing for who has not logged in, and nothing is asked of other sites.
PUBLIC_ROLE_LIKE = None
AUTH_USER_REGISTRATION = False
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = os.environ.get("STUNWATCH_SUPERSET_HTTPS", "") == "1"
ENABLE_PROXY_FIX = SESSION_COOKIE_SECURE
WTF_CSRF_ENABLED = True
# Superset's own policy lets the page tell its makers of every visit, and fetch maps.
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
# Two people who look at the same dashboard ask once; nobody sees what is older than the refresh.
DATA_CACHE_CONFIG = _cache("data", timedelta(seconds=30))
FILTER_STATE_CACHE_CONFIG = _cache("filters", timedelta(days=90))
EXPLORE_FORM_DATA_CACHE_CONFIG = _cache("explore", timedelta(days=7))


def DB_CONNECTION_MUTATOR(
    uri: URL, params: dict[str, Any], *_: object
) -> tuple[URL, dict[str, Any]]:
    """Point the one database of the assets at this installation's ClickHouse.

    So neither the repository nor Superset's metadata holds an address or a password.
    """
    if uri.host == "stunwatch":
        uri = uri.set(
            host=os.environ["STUNWATCH_CLICKHOUSE_HOST"],
            port=int(os.environ["STUNWATCH_CLICKHOUSE_HTTP_PORT"]),
            password=os.environ["STUNWATCH_CLICKHOUSE_READER_PASSWORD"],
        )
    return uri, params


def FLASK_APP_MUTATOR(app: Flask) -> None:
    """Mend what Superset has no setting for."""
    _say_what_is_refused(app)
    _leave_a_login_alone(app)


def _say_what_is_refused(app: Flask) -> None:
    """Let a refused import say which file is at fault; by itself Superset only logs that."""
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
    """Set no cookie when the page of the login tells that it was opened.

    It does so a second after; were its answer the later one, the cookie of that visitor whom nobody
    knows would take the place of the one that the login has just set.
    """

    @app.before_request
    def nobody_yet() -> tuple[str, int] | None:
        return ("", 204) if request.path == "/superset/log/" and "_user_id" not in session else None
