"""The application that gunicorn serves: Superset, provisioned before the workers are forked.

gunicorn --config gunicorn.conf.py serve:app
"""

from __future__ import annotations

# Import the dialect before threads use it. sqlglot 28 registers a dialect before it is complete. In
# the meantime Superset would reject the query of a chart as invalid SQL.
import sqlglot.dialects.clickhouse  # noqa: F401
from provision import provision
from superset.app import create_app

app = create_app()
provision(app)
