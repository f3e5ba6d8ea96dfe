"""Sets up Kafka (users, permissions, topics) and ClickHouse (tables) in containers.

python -m stunwatch.local.setup         both python -m stunwatch.local.setup sql     only the
tables, if an operator sets up Kafka
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from stunwatch import schema
from stunwatch.clickhouse import ClickHouse
from stunwatch.local import clickhouse, kafka, readers
from stunwatch.printable import echo
from stunwatch.settings import Settings, load_settings


def main() -> None:
    """Wait for both servers, then apply permissions, topics and sql/."""
    settings = load_settings()
    if sys.argv[1:] != ["sql"]:
        _wait(settings, kafka.unhealthy_reason)
        kafka.apply_principals(settings)
        echo(f"topics: {kafka.apply_topics(settings)}")
    _wait(settings, clickhouse.unhealthy_reason)
    if sys.argv[1:] != ["sql"]:
        readers.read_all_into_new_tables(settings)
    echo(f"sql: {_apply_sql(settings)}")


def _wait(settings: Settings, unhealthy_reason: Callable[[Settings], str | None]) -> None:
    while said := unhealthy_reason(settings):
        echo(said)
        time.sleep(1)


def _apply_sql(settings: Settings) -> list[str]:
    def server(host: str) -> ClickHouse:
        return clickhouse.administrator(replace(settings, clickhouse_host=host))

    if settings.clickhouse_cluster:
        applied = schema.apply_to_all(
            settings.clickhouse_cluster,
            server,
            settings.clickhouse_host,
            site_timezone=settings.site_timezone.key,
        )
        schema.store_limits(clickhouse.administrator(settings), settings.limits)
        return applied
    return clickhouse.apply_sql(settings)


if __name__ == "__main__":
    main()
