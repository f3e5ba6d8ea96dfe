"""The prefilter lets through exactly the lines that hold a literal."""

from __future__ import annotations

import random
import subprocess
import sys

import orjson

from stunwatch.runtime.flink import client_environment
from tests.end_to_end.conftest import Pipeline

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
        f"SELECT n FROM (VALUES {rows}) AS t(n, x) WHERE contains_any(x, {joined})"
    )
    with result.collect() as numbers:
        found.append(sorted(row[0] for row in numbers))
print(orjson.dumps(found).decode())
"""


def word(dice: random.Random, letters: str, longest: int) -> str:
    return "".join(dice.choice(letters) for _ in range(dice.randrange(1, longest + 1)))


def test_the_prefilter_finds_what_python_finds(pipeline: Pipeline) -> None:
    dice = random.Random(7)
    cases = [
        (
            [word(dice, "abc", 5) for _ in range(dice.randrange(1, 8))],
            [word(dice, "abcdé'日", 14) for _ in range(400)],
        )
        for _ in range(6)
    ]
    done = subprocess.run(
        [sys.executable, "-c", ASK_FLINK],
        input=orjson.dumps(cases),
        env=client_environment(pipeline.settings),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert orjson.loads(done.stdout.splitlines()[-1]) == [
        [n for n, text in enumerate(texts) if any(each in text for each in literals)]
        for literals, texts in cases
    ]
