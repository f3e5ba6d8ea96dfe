"""Gives Kafka its users, rights and topics, and ClickHouse its tables, where containers run them.

python -m stunwatch.runtime.setup         both
python -m stunwatch.runtime.setup sql     the tables alone: Kafka's operator does the rest
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from stunwatch import schema
from stunwatch.clickhouse import ClickHouse
from stunwatch.runtime import clickhouse, kafka
from stunwatch.settings import Settings, load_settings


def main() -> None:
    """Wait for both, then apply acls.yaml, topics.yaml and sql/."""
    settings = load_settings()
    if sys.argv[1:] != ["sql"]:
        _wait(settings, kafka.ailment)
        kafka.apply_principals(settings)
        print("topics:", kafka.apply_topics(settings))
    _wait(settings, clickhouse.ailment)
    print("sql:", _apply_sql(settings))


def _wait(settings: Settings, ailment: Callable[[Settings], str | None]) -> None:
    while said := ailment(settings):
        print(said, flush=True)
        time.sleep(1)


def _apply_sql(settings: Settings) -> list[str]:
    def server(host: str) -> ClickHouse:
        return clickhouse.administrator(replace(settings, clickhouse_host=host))

    if settings.clickhouse_cluster:
        return schema.apply_to_all(settings.clickhouse_cluster, server, settings.clickhouse_host)
    return schema.apply(clickhouse.administrator(settings))


if __name__ == "__main__":
    main()
