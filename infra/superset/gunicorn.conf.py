"""Gunicorn's settings for Superset, which is loaded once, before the workers are forked."""

import os

bind = f"{os.environ['STUNWATCH_BIND_ADDRESS']}:{os.environ['STUNWATCH_SUPERSET_PORT']}"
workers = int(os.environ.get("STUNWATCH_SUPERSET_WORKERS", "2"))
threads = 2
worker_class = "gthread"
preload_app = True
timeout = 120
# If the heartbeat file were on a busy disk, gunicorn would kill workers that are alive.
worker_tmp_dir = "/dev/shm"  # noqa: S108
# Not used, and it would be created in the home folder of the user.
control_socket_disable = True
# Links to a filtered dashboard contain each name twice, with up to 255 bytes. 8190 is the maximum.
limit_request_line = 8190
