"""Run ClickHouse's server in this process, from libchdb.

libchdb's entry point is that of `clickhouse local`, which has a statement to open ports. So the
HTTP server runs without an installed ClickHouse. Uses the standard library only, and stops on
SIGTERM.

Without a terminal, `clickhouse local` aborts at the first error in any thread, for example when a
client resets its connection. So it gets a terminal, and its option `--interactive`.

config.xml reads passwords from the environment. If <NAME>_FILE names a file, its content becomes
<NAME> in this process only, so no list of processes shows it.

    python infra/clickhouse/server.py LIBRARY CONFIG
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import signal
import sys
import termios
import threading
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

# Nothing local uses the native port, so it stays closed.
STATEMENTS = (
    "SYSTEM START LISTEN HTTP",
    "SELECT sleepEachRow(1) FROM system.numbers SETTINGS max_block_size = 1 FORMAT Null",
)


def read_secrets() -> None:
    """Set each <NAME> ending in _PASSWORD to the content of the file that <NAME>_FILE names."""
    for name, path in list(os.environ.items()):
        if name.endswith("_PASSWORD_FILE"):
            os.environ[name.removesuffix("_FILE")] = Path(path).read_text().strip()


def open_terminal() -> None:
    """Make standard input a terminal at which somebody always types `exit`.

    An interactive `clickhouse local` reads it after its last statement, or after one that failed.
    What it writes to the terminal is read and dropped: otherwise it would wait.
    """
    master, terminal = pty.openpty()
    os.dup2(terminal, pty.STDIN_FILENO)
    os.close(terminal)
    os.set_blocking(master, False)

    def is_empty() -> bool:
        return not any(fcntl.ioctl(pty.STDIN_FILENO, termios.FIONREAD, bytes(4)))

    def use() -> None:
        while True:
            time.sleep(0.5)
            with suppress(BlockingIOError):  # nothing was written
                os.read(master, 1 << 16)
            # Switching the terminal's mode drops what was typed before.
            if is_empty():
                os.write(master, b"exit\n")

    threading.Thread(target=use, daemon=True).start()


def serve(library: Path, config: Path) -> None:
    """Run the server until its last statement is killed. ClickHouse prints its errors."""
    chdb = ctypes.CDLL(str(library))
    words = ["clickhouse", "--config-file", str(config), "--query", "; ".join(STATEMENTS)]
    words += ["--path", os.environ["STUNWATCH_CLICKHOUSE_PATH"]]
    words += [
        "--interactive",
        "--progress=off",
        "--disable_suggestion",
        "--history_file",
        os.devnull,
    ]
    # The embedded server ignores this one setting in the file.
    words += ["--log-level=warning"]
    arguments = (ctypes.c_char_p * len(words))(*(each.encode() for each in words))
    chdb.chdb_query_cmdline(len(words), arguments)


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

    open_terminal()
    is_stopping = threading.Event()

    def run() -> None:
        serve(library, config)
        # Threads of the library outlive its last statement.
        os._exit(0 if is_stopping.is_set() else 1)

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
