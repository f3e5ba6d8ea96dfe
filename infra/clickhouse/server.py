"""Run ClickHouse's server in this process, from libchdb.

libchdb's entry point is that of `clickhouse local`, which has a statement to open ports. So the
HTTP server runs without an installed ClickHouse. Uses the standard library only, and stops on
SIGTERM.

A client that resets its connection can abort libchdb's process, on the native port and on the HTTP
port. Nothing local uses the native port, so it stays closed. After an abort the supervisor restarts
the server.

config.xml reads passwords from the environment. If <NAME>_FILE names a file, its content becomes
<NAME> in this process only, so no list of processes shows it.

    python infra/clickhouse/server.py LIBRARY CONFIG
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import urllib.parse
import urllib.request
from pathlib import Path

STATEMENTS = (
    "SYSTEM START LISTEN HTTP",
    "SELECT sleepEachRow(1) FROM system.numbers SETTINGS max_block_size = 1 FORMAT Null",
)


class Result(ctypes.Structure):
    """The entry point's result. Times are in seconds; `error_message` is NULL on success."""

    _fields_ = (
        ("buffer", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
        ("vector", ctypes.c_void_p),
        ("elapsed", ctypes.c_double),
        ("rows_read", ctypes.c_uint64),
        ("bytes_read", ctypes.c_uint64),
        ("error_message", ctypes.c_char_p),
    )


def read_secrets() -> None:
    """Set each <NAME> ending in _PASSWORD to the content of the file that <NAME>_FILE names."""
    for name, path in list(os.environ.items()):
        if name.endswith("_PASSWORD_FILE"):
            os.environ[name.removesuffix("_FILE")] = Path(path).read_text().strip()


def serve(library: Path, config: Path) -> str:
    """Run the server until its last statement is killed; return ClickHouse's error, or ""."""
    chdb = ctypes.CDLL(str(library))
    chdb.query_stable_v2.restype = ctypes.POINTER(Result)
    words = ["clickhouse", "--config-file", str(config), "--query", "; ".join(STATEMENTS)]
    words += ["--path", os.environ["STUNWATCH_CLICKHOUSE_PATH"]]
    # The embedded server ignores this one setting in the file.
    words += ["--log-level=warning"]
    arguments = (ctypes.c_char_p * len(words))(*(each.encode() for each in words))
    result = chdb.query_stable_v2(len(words), arguments)
    if not result or not result.contents.error_message:
        return ""
    return str(result.contents.error_message.decode(errors="replace"))


def stop() -> None:
    """Kill the query that keeps the server running, so that it shuts down.

    It is the only query with an empty user name.
    """
    port = os.environ["STUNWATCH_CLICKHOUSE_HTTP_PORT"]
    query = urllib.parse.urlencode({"query": "KILL QUERY WHERE user = '' ASYNC"})
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/?{query}",
        data=b"",
        headers={
            "X-ClickHouse-User": "admin",
            "X-ClickHouse-Key": os.environ["STUNWATCH_CLICKHOUSE_ADMIN_PASSWORD"],
        },
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
        answer.read()


def main() -> None:
    """Run the server in a thread, and wait for the signal in this one."""
    library, config = map(Path, sys.argv[1:])
    read_secrets()
    stopping = {signal.SIGTERM, signal.SIGINT}
    # Before the library starts its threads, which inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)

    is_stopping = threading.Event()

    def run() -> None:
        error = serve(library, config)
        failed = bool(error) and not is_stopping.is_set()
        if failed:
            print(error, file=sys.stderr, flush=True)
        # Threads of the library outlive its last statement.
        os._exit(1 if failed else 0)

    threading.Thread(target=run).start()
    signal.sigwait(stopping)
    is_stopping.set()
    try:
        stop()
    except OSError as error:
        # Not started yet, or too busy. The tables survive a kill.
        print(f"ended without an orderly stop: {error}", file=sys.stderr, flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
