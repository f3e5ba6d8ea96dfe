"""Records as JSON."""

import subprocess
import sys

import orjson
import pytest

from stunwatch.ingest.records import to_json

MEASURED = """
import resource
from stunwatch.ingest.records import to_json

def resident_pages():
    with open("/proc/self/statm") as text:
        return int(text.read().split()[1])

record = {"message": "x" * 500}
before = resident_pages()
kept = [to_json(record) for _ in range(20_000)]
print((resident_pages() - before) * resource.getpagesize() / len(kept))
"""


def test_the_json_is_that_of_the_record() -> None:
    record = {"message": 'a "quoted" ü\n', "offset": 7}
    assert orjson.loads(to_json(record)) == record
    assert to_json(record) == orjson.dumps(record)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_kept_record_occupies_little_more_than_its_length() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 1024
