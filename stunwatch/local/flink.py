"""Apache Flink: a session cluster of one JobManager and one TaskManager."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any

import yaml

from stunwatch import access
from stunwatch.folders import PACKAGE
from stunwatch.jobs.options import STATE
from stunwatch.local import job_code
from stunwatch.local.component import Component, Launch
from stunwatch.local.passwords import made_once
from stunwatch.settings import ROOT, Settings

CONFIG = ROOT / "infra" / "flink"
PROMETHEUS = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
SLOTS = 4
HEARTBEAT_SECONDS = 10.0
"""A TaskManager without a heartbeat for this long is gone; its interval is 3 s (config.yaml)."""


def distribution() -> Path:
    """Return the Flink distribution of the PyPI package apache-flink (FLINK_HOME)."""
    found = importlib.util.find_spec("pyflink")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def jars(settings: Settings) -> Path:
    """Return Flink's class path: its own jars (links), the Kafka connector and the prefilter."""
    return settings.build / "flink-lib"


def checkpoints(settings: Settings) -> Path:
    """Return the folder of checkpoints in the current state format.

    They are <job id>/chk-<number>/_metadata.
    """
    return settings.home / "flink" / "checkpoints" / str(STATE)


def savepoints(settings: Settings) -> Path:
    """Return the folder of savepoints in the current state format.

    They are savepoint-<job id>-<number>/_metadata.
    """
    return settings.home / "flink" / "savepoints" / str(STATE)


def writes_checkpoints_to(settings: Settings, folder: Path) -> bool:
    """Return whether the running components write their checkpoints to this folder."""
    told = yaml.safe_load((settings.run / "flink" / "config.yaml").read_text())
    written_to: str = told["execution"]["checkpointing"]["dir"]
    return written_to == f"file://{folder}"


def client_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a process that submits jobs to the cluster."""
    # A client runs for seconds only: little memory, and no optimising compiler.
    jvm = {"JVM_ARGS": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    # The site-packages of a wheel do not have the job's modules.
    paths = [job_code.python_path(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    code = {"PYTHONPATH": ":".join(paths)}
    return os.environ | access.environment(settings) | _environment(settings) | jvm | code


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
    """Write infra/flink/config.yaml, filled in, to the folder of FLINK_CONF_DIR."""
    folder = settings.run / "flink"
    folder.mkdir(exist_ok=True, mode=0o700)
    scratch = settings.home / "flink" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    own = _filled(
        "config.yaml",
        rest_origin=f"{'https' if is_secured(settings) else 'http'}://{settings.flink_rest}",
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
    if is_secured(settings):
        keystore, password = _keystore(settings)
        own |= _filled("secure.yaml", keystore=keystore, password=password)
    shipped = yaml.safe_load((distribution() / "conf" / "config.yaml").read_text())
    options = own["env.java.opts"]
    options["all"] = f"{shipped['env']['java']['opts']['all']} {options['all']}"
    # Both components and the keeper write this file, so it must be replaced atomically.
    _replace(folder / "config.yaml", yaml.safe_dump(own, width=4096))
    for name in ("log4j-console.properties", "log4j-cli.properties"):
        _replace(folder / name, (CONFIG / name).read_text())


def _filled(name: str, **values: object) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Template((CONFIG / name).read_text()).substitute(values))
    return found


def _keystore(settings: Settings) -> tuple[Path, str]:
    """Convert flink.crt and flink.key to a Java keystore; return its path and its password."""
    key, certificate = (settings.certificates / f"flink.{each}" for each in ("key", "crt"))
    path = settings.run / "flink" / "keystore.p12"
    password_file = settings.run / "flink" / "keystore_password"
    password = made_once(password_file)
    if not path.exists() or path.stat().st_mtime < certificate.stat().st_mtime:
        draft = path.with_suffix(f".{os.getpid()}")
        draft.touch(mode=0o600)
        words = ["openssl", "pkcs12", "-export", "-name", "flink", "-out", str(draft)]
        words += ["-in", str(certificate), "-inkey", str(key)]
        subprocess.run([*words, "-passout", f"file:{password_file}"], check=True)
        draft.rename(path)
    return path, password


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    # The file contains the keystore's password.
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.rename(path)


def _launch(
    script: str,
    metrics_port: int,
    settings: Settings,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Launch:
    write_configuration(settings)
    command = ["bash", str(distribution() / "bin" / script), "start-foreground"]
    if settings.metrics:
        command += ["-D", f"metrics.reporter.prometheus.port={metrics_port}"]
        command += ["-D", f"metrics.reporter.prometheus.factory.class={PROMETHEUS}"]
    return Launch(command, _environment(settings) | dict(more))


def _launch_taskmanager(settings: Settings) -> Launch:
    # Python runs inside its JVM and loads each module once: other code needs another TaskManager.
    code = {"PYTHONPATH": job_code.python_path(job_code.current(settings) or PACKAGE.parent)}
    return _launch("taskmanager.sh", settings.taskmanager_metrics_port, settings, code)


def get(settings: Settings, path: str) -> Any:
    """GET a path of Flink's REST interface; raises OSError if it fails."""
    return _request(settings, "GET", path)


def post(settings: Settings, path: str, body: dict[str, Any]) -> Any:
    """POST to Flink's REST interface; raises OSError if it fails."""
    return _request(settings, "POST", path, json.dumps(body))


def cancel(settings: Settings, job_id: str) -> None:
    """Cancel a job; raises OSError if Flink rejects the request."""
    _request(settings, "PATCH", f"/jobs/{job_id}?mode=cancel")


def is_secured(settings: Settings) -> bool:
    """True if Flink requires client certificates. It does not on Kubernetes."""
    return access.is_secured(settings) and (settings.certificates / "flink.crt").exists()


def _connection(settings: Settings) -> http.client.HTTPConnection:
    if not is_secured(settings):
        return http.client.HTTPConnection(settings.flink_rest, timeout=5)
    own = settings.certificates / "flink.crt"
    context = ssl.create_default_context(cafile=own)
    context.load_cert_chain(own, own.with_suffix(".key"))
    return http.client.HTTPSConnection(settings.flink_rest, timeout=5, context=context)


def _request(settings: Settings, method: str, path: str, body: str | None = None) -> Any:
    connection = _connection(settings)
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


def jobmanager_unhealthy_reason(settings: Settings) -> str | None:
    """Request the cluster overview; return the problem, None if Flink answers."""
    try:
        get(settings, "/overview")
    except OSError:
        return f"{settings.flink_rest} does not answer"
    return None


def taskmanager_unhealthy_reason(settings: Settings) -> str | None:
    """Return the problem if the JobManager has too few slots, None if it has enough."""
    try:
        managers = get(settings, "/taskmanagers")["taskmanagers"]
    except OSError:
        return "the JobManager does not answer"
    now = time.time()
    # The JobManager lists a killed TaskManager for a while, so its last heartbeat decides.
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
    unhealthy_reason=jobmanager_unhealthy_reason,
    stop_seconds=20,
)
TASKMANAGER = Component(
    "taskmanager",
    after=("jobmanager",),
    launch=_launch_taskmanager,
    unhealthy_reason=taskmanager_unhealthy_reason,
    stop_seconds=20,
)


def clear_scratch(settings: Settings) -> None:
    """Remove temporary files of a killed cluster. Call this only while the cluster is down."""
    shutil.rmtree(settings.home / "flink" / "scratch", ignore_errors=True)
