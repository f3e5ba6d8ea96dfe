"""What gunicorn serves: Superset, provisioned before the workers are forked.

gunicorn --config gunicorn.conf.py serve:app
"""

from __future__ import annotations

from provision import provision
from superset.app import create_app

app = create_app()
provision(app)
