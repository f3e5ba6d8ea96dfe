"""Create Superset's metadata, roles and administrator.

This runs in the server process before it serves, because each Superset command needs ten seconds
for its imports.

    python provision.py     fills a new metadata database and exits (used by the installation)
"""

from __future__ import annotations

from flask import Flask
from secret_files import secret
from superset.app import create_app

VIEWERS = "ops_viewer"
ADMIN = "admin"


def provision(app: Flask) -> None:
    """Upgrade the metadata to this version of Superset; add missing roles and users."""
    with app.app_context():
        if _needs_upgrade():
            _upgrade()
        _let_look()
        _add_administrator()
        _disconnect()


def fill() -> None:
    """Create the metadata of a new Superset."""
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
    """Grant the role the permissions to view dashboards.

    `dashboards apply` grants it access to the data.
    """
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

    # The password is set once, so that a change in Superset persists.
    if security_manager.find_user(ADMIN):
        return
    password = secret("STUNWATCH_SUPERSET_ADMIN_PASSWORD")
    role = security_manager.find_role("Admin")
    security_manager.add_user(ADMIN, "stunwatch", "admin", "admin@localhost", role, password)
    db.session.commit()


def _disconnect() -> None:
    """Close all connections, because the workers are forked from this process."""
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
"""(permission, view) pairs of a role that can view dashboards and nothing else."""


if __name__ == "__main__":
    fill()
