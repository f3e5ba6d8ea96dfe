"""Superset's metadata, roles and administrator: made in the process that then serves.

Every Superset command costs ten seconds of imports, so nothing here is a command of its own.

    python provision.py     fills a fresh metadata database and ends (what the installation does)
"""

from __future__ import annotations

import os

from flask import Flask
from superset.app import create_app

VIEWERS = "ops_viewer"
ADMIN = "admin"


def provision(app: Flask) -> None:
    """Bring the metadata to this version of Superset; add what is missing of roles and users."""
    with app.app_context():
        if _needs_upgrade():
            _upgrade()
        _let_look()
        _add_administrator()
        _disconnect()


def fill() -> None:
    """Make the metadata of a Superset that nobody has used yet."""
    with create_app().app_context():
        _upgrade()
        _disconnect()


def _needs_upgrade() -> bool:
    from alembic.script import ScriptDirectory  # noqa: PLC0415 (Superset's parts need the app)
    from flask import current_app  # noqa: PLC0415
    from sqlalchemy import inspect, text  # noqa: PLC0415

    from superset import db  # noqa: PLC0415

    if not inspect(db.engine).has_table("alembic_version"):
        return True
    folder = current_app.extensions["migrate"].directory
    with db.engine.connect() as connection:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found != ScriptDirectory(folder).get_current_head()


def _upgrade() -> None:
    from flask_migrate import upgrade  # noqa: PLC0415

    from superset import appbuilder, db, security_manager  # noqa: PLC0415

    upgrade()
    appbuilder.add_permissions(update_perms=True)
    security_manager.sync_role_definitions()
    db.session.commit()


def _let_look() -> None:
    """Give the role what a dashboard needs to be drawn; `dashboards apply` lets it see the data."""
    from superset import db, security_manager  # noqa: PLC0415

    role = security_manager.add_role(VIEWERS)
    data = [each for each in role.permissions if each.permission.name == "database_access"]
    role.permissions = data + [
        each
        for each in security_manager._get_all_pvms()
        if (each.permission.name, each.view_menu.name) in MAY_LOOK
    ]
    db.session.commit()


def _add_administrator() -> None:
    from superset import db, security_manager  # noqa: PLC0415

    password = os.environ["STUNWATCH_SUPERSET_ADMIN_PASSWORD"]
    if user := security_manager.find_user(ADMIN):
        security_manager.reset_password(user.id, password)
    else:
        role = security_manager.find_role("Admin")
        security_manager.add_user(ADMIN, "stunwatch", "admin", "admin@localhost", role, password)
    db.session.commit()


def _disconnect() -> None:
    """Leave no connection open: the workers are forked from this process."""
    from superset import db  # noqa: PLC0415

    db.session.remove()
    db.engine.dispose()


MAY_LOOK = {
    ("can_read", "Dashboard"),
    ("can_read", "Chart"),
    ("can_dashboard", "Superset"),
    ("can_dashboard_permalink", "Superset"),
    ("can_read", "DashboardPermalinkRestApi"),
    ("can_write", "DashboardPermalinkRestApi"),
    ("can_read", "DashboardFilterStateRestApi"),
    ("can_write", "DashboardFilterStateRestApi"),
    ("can_time_range", "Api"),
    ("can_query_form_data", "Api"),
    ("can_query", "Api"),
    ("can_read", "CssTemplate"),
    ("can_read", "Theme"),
    ("can_read", "CurrentUserRestApi"),
    ("can_read", "SecurityRestApi"),
    ("can_write", "CurrentUserRestApi"),
    ("can_get", "Datasource"),
    ("can_read", "Annotation"),
    ("can_read", "AnnotationLayerRestApi"),
    ("can_csv", "Superset"),
    ("can_log", "Superset"),
    ("can_recent_activity", "Log"),
    ("can_userinfo", "UserDBModelView"),
    ("resetmypassword", "UserDBModelView"),
    ("can_this_form_get", "ResetMyPasswordView"),
    ("can_this_form_post", "ResetMyPasswordView"),
    ("menu_access", "Dashboards"),
}
"""(permission, view) of a role that looks at dashboards, and at nothing else."""


if __name__ == "__main__":
    fill()
