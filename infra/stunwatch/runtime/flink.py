"""Apache Flink: a session cluster of one JobManager and one TaskManager."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import sys
import time
from pathlib import Path
from string import Template
from typing import Any

import yaml

from stunwatch import access
from stunwatch.runtime.component import Component, Launch
from stunwatch.settings import ROOT, Settings

CONFIG = ROOT / "infra" / "flink"
PROMETHEUS = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
SLOTS = 4
HEARTBEAT_SECONDS = 10.0
"""A TaskManager that was not heard of for so long is gone; it beats every 3 s (config.yaml)."""


def distribution() -> Path:
    """The cluster that apache-flink brings from PyPI (what Flink calls FLINK_HOME)."""
    found = importlib.util.find_spec("pyflink")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def jars(settings: Settings) -> Path:
    """Flink's class path: its own jars (linked), the Kafka connector and the project's own."""
    return settings.build / "flink-lib"


def checkpoints(settings: Settings) -> Path:
    """Checkpoints as <job id>/chk-<number>/_metadata."""
    return settings.home / "flink" / "checkpoints"


def savepoints(settings: Settings) -> Path:
    """Savepoints as savepoint-<job id>-<number>/_metadata."""
    return settings.home / "flink" / "savepoints"


def client_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a process that submits jobs to the cluster."""
    # A client lives for seconds beside everything else: little memory, compiled no further.
    jvm = {"JVM_ARGS": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    return os.environ | access.environment(settings) | _environment(settings) | jvm


def _environment(settings: Settings) -> dict[str, str]:
    return {
        "FLINK_HOME": str(distribution()),
        "FLINK_CONF_DIR": str(settings.run / "flink"),
        "FLINK_LIB_DIR": str(jars(settings)),
        "FLINK_LOG_DIR": str(settings.logs),
        "FLINK_PID_DIR": str(settings.run),
        "FLINK_PLUGINS_DIR": str(distribution() / "plugins"),
    }


def write_configuration(settings: Settings) -> None:
    """Fill in infra/flink/config.yaml, into the folder that FLINK_CONF_DIR names."""
    folder = settings.run / "flink"
    folder.mkdir(exist_ok=True)
    scratch = settings.home / "flink" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    text = Template((CONFIG / "config.yaml").read_text()).substitute(
        bind_address=settings.bind_address,
        jobmanager_host=settings.jobmanager_host,
        taskmanager_host=settings.taskmanager_host,
        flink_rpc_port=settings.flink_rpc_port,
        flink_rest_port=settings.flink_rest_port,
        flink_blob_port=settings.flink_blob_port,
        checkpoints=checkpoints(settings),
        python=sys.executable,
        scratch=scratch,
    )
    own = yaml.safe_load(text)
    shipped = yaml.safe_load((distribution() / "conf" / "config.yaml").read_text())
    own["env.java.opts"]["all"] = shipped["env"]["java"]["opts"]["all"]
    # Both components and the keeper write this: never half a file for another to read.
    _replace(folder / "config.yaml", yaml.safe_dump(own, width=4096))
    for name in ("log4j-console.properties", "log4j-cli.properties"):
        _replace(folder / name, (CONFIG / name).read_text())


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.rename(path)


def _launch(script: str, metrics_port: int, settings: Settings) -> Launch:
    write_configuration(settings)
    command = ["bash", str(distribution() / "bin" / script), "start-foreground"]
    if settings.metrics:
        command += ["-D", f"metrics.reporter.prometheus.port={metrics_port}"]
        command += ["-D", f"metrics.reporter.prometheus.factory.class={PROMETHEUS}"]
    return Launch(command, _environment(settings))


def get(settings: Settings, path: str) -> Any:
    """Ask Flink's REST interface; raises OSError where it does not answer with a result."""
    return _request(settings, "GET", path)


def post(settings: Settings, path: str, body: dict[str, Any]) -> Any:
    """Ask Flink to begin something; raises OSError where it refuses."""
    return _request(settings, "POST", path, json.dumps(body))


def cancel(settings: Settings, job_id: str) -> None:
    """Ask Flink to cancel a job; raises OSError where it refuses."""
    _request(settings, "PATCH", f"/jobs/{job_id}?mode=cancel")


def _request(settings: Settings, method: str, path: str, body: str | None = None) -> Any:
    connection = http.client.HTTPConnection(settings.flink_rest, timeout=5)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        if answer.status not in (http.HTTPStatus.OK, http.HTTPStatus.ACCEPTED):
            raise OSError(f"{settings.flink_rest}{path} answered {answer.status}")
        return json.loads(answer.read())
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def jobmanager_ailment(settings: Settings) -> str | None:
    """Ask for the overview; return why there is none, None if there is."""
    try:
        get(settings, "/overview")
    except OSError:
        return f"{settings.flink_rest} does not answer"
    return None


def taskmanager_ailment(settings: Settings) -> str | None:
    """Return why the JobManager has no slots to give, None if it has them."""
    try:
        managers = get(settings, "/taskmanagers")["taskmanagers"]
    except OSError:
        return "the JobManager does not answer"
    now = time.time()
    # The JobManager believes in one that was killed for a while; its heartbeat does not.
    slots = sum(
        each["slotsNumber"]
        for each in managers
        if now - each["timeSinceLastHeartbeat"] / 1000 < HEARTBEAT_SECONDS
    )
    return None if slots >= SLOTS else f"{slots} of {SLOTS} slots are registered"


JOBMANAGER = Component(
    "jobmanager",
    after=(),
    launch=lambda settings: _launch("jobmanager.sh", settings.jobmanager_metrics_port, settings),
    ailment=jobmanager_ailment,
    stop_seconds=20,
)
TASKMANAGER = Component(
    "taskmanager",
    after=("jobmanager",),
    launch=lambda settings: _launch("taskmanager.sh", settings.taskmanager_metrics_port, settings),
    ailment=taskmanager_ailment,
    stop_seconds=20,
)


def clear_scratch(settings: Settings) -> None:
    """Remove what a killed cluster left behind; only while it is down."""
    shutil.rmtree(settings.home / "flink" / "scratch", ignore_errors=True)
