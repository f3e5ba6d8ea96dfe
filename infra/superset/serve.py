"""What gunicorn serves: Superset, provisioned before the workers are forked.

gunicorn --config gunicorn.conf.py serve:app
"""

from __future__ import annotations

# Loaded before threads ask for it: sqlglot 28 lists a dialect before it is whole, and a chart that
# is asked for meanwhile is refused as no SQL.
import sqlglot.dialects.clickhouse  # noqa: F401
from provision import provision
from superset.app import create_app

app = create_app()
provision(app)
