"""Gives Kafka its users, rights and topics, and ClickHouse its tables, where containers run them.

python -m stunwatch.runtime.setup
"""

from __future__ import annotations

import time

from stunwatch import schema
from stunwatch.runtime import clickhouse, kafka
from stunwatch.settings import load_settings


def main() -> None:
    """Wait for both, then apply acls.yaml, topics.yaml and sql/."""
    settings = load_settings()
    while ailment := kafka.ailment(settings) or clickhouse.ailment(settings):
        print(ailment, flush=True)
        time.sleep(1)
    kafka.apply_principals(settings)
    print("topics:", kafka.apply_topics(settings))
    print("sql:", schema.apply(clickhouse.administrator(settings)))


if __name__ == "__main__":
    main()
