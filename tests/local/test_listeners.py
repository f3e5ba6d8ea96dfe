"""No process of a running pipeline listens beyond loopback."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address

import psutil

from stunwatch.local.processes import processes
from tests.pipeline import Pipeline


def test_only_flinks_metrics_listen_beyond_loopback(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    # Its reporter has no setting for an address (docs/security.md).
    allowed = {settings.jobmanager_metrics_port, settings.taskmanager_metrics_port}
    listening = set()
    for each in processes(settings):
        with suppress(psutil.NoSuchProcess):  # a client that has ended
            listening |= {
                (each.component, at.laddr.ip, at.laddr.port)
                for at in psutil.Process(each.pid).net_connections("tcp")
                if at.status == psutil.CONN_LISTEN
            }
    found = {component for component, _, _ in listening}
    assert {"kafka", "clickhouse", "jobmanager", "taskmanager"} <= found
    open_to_others = {
        (component, ip, port)
        for component, ip, port in listening
        if not ip_address(ip.removeprefix("::ffff:")).is_loopback and port not in allowed
    }
    assert not open_to_others
