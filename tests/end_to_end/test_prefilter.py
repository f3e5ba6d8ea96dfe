"""The prefilter passes exactly the lines that contain a literal."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from stunwatch.local import fetch
from stunwatch.local.flink import client_environment, write_configuration
from tests.pipeline import settings_in

ASK_FLINK = """
import sys
import orjson
from pyflink.table import EnvironmentSettings, TableEnvironment

cases = orjson.loads(sys.stdin.read())
tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
tables.execute_sql(
    "CREATE TEMPORARY SYSTEM FUNCTION contains_any AS 'io.github.stunwatch.ContainsAny'"
)
quoted = lambda text: "'" + text.replace("'", "''") + "'"
found = []
for literals, texts in cases:
    rows = ", ".join(f"({number}, {quoted(text)})" for number, text in enumerate(texts))
    joined = quoted("\\n".join(literals))
    result = tables.execute_sql(
        f"SELECT n FROM (VALUES {rows}) AS t(n, x) WHERE contains_any(x, {joined}, 14)"
    )
    with result.collect() as numbers:
        found.append(sorted(row[0] for row in numbers))
print(orjson.dumps(found).decode())
"""


def word(rng: random.Random, letters: str, shortest: int, longest: int) -> str:
    return "".join(rng.choice(letters) for _ in range(rng.randrange(shortest, longest + 1)))


@pytest.mark.slow
def test_the_prefilter_passes_the_same_lines_as_python(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    fetch.ensure(settings, Console(stderr=True))
    settings.make_folders()
    write_configuration(settings)
    rng = random.Random(7)
    cases = [
        (
            [word(rng, "abc", 2, 5) for _ in range(rng.randrange(1, 8))],
            [word(rng, "abcdé'日\N{GRINNING FACE}", 1, 16) for _ in range(400)],
        )
        for _ in range(6)
    ]
    done = subprocess.run(
        [sys.executable, "-c", ASK_FLINK],
        input=orjson.dumps(cases),
        env=client_environment(settings),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert orjson.loads(done.stdout.splitlines()[-1]) == [
        [
            n
            for n, text in enumerate(texts)
            if len(text) <= 14 and any(map(text.__contains__, literals))
        ]
        for literals, texts in cases
    ]
