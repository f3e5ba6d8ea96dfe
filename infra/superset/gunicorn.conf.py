"""How gunicorn serves Superset: loaded once, then forked."""

import os

bind = f"{os.environ['STUNWATCH_BIND_ADDRESS']}:{os.environ['STUNWATCH_SUPERSET_PORT']}"
workers = int(os.environ.get("STUNWATCH_SUPERSET_WORKERS", "2"))
threads = 2
worker_class = "gthread"
preload_app = True
timeout = 120
# A worker whose heartbeat file lies on a busy disk would be taken for dead.
worker_tmp_dir = "/dev/shm"  # noqa: S108
# Nothing asks for it, and it would lie in the home folder of whoever starts this.
control_socket_disable = True
