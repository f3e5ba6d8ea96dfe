"""Run every query of every chart on a real ClickHouse: columns exist, expressions are valid."""

from __future__ import annotations

import pytest

from stunwatch.dashboards.assets import of_kind
from tests.clickhouse_server import Server
from tests.dashboards.files import FILES


@pytest.mark.parametrize("name", of_kind(FILES, "datasets"))
def test_columns_and_metrics_of_a_dataset_exist_in_its_view(server: Server, name: str) -> None:
    dataset = FILES[name]
    view = dataset["table_name"]
    types = dict(
        server.reader.rows(
            "SELECT name, if(startsWith(type, 'Enum'), 'String', type) FROM system.columns"
            f" WHERE database = 'stunwatch' AND table = '{view}'"
        )
    )
    for each in dataset["columns"]:
        if "expression" not in each:
            assert types[each["column_name"]] == each["type"], each["column_name"]
    calculated = [each for each in dataset["columns"] if "expression" in each]
    expressions = [*(each["expression"] for each in calculated)]
    server.reader.rows(f"SELECT {', '.join(expressions)} FROM {view} LIMIT 1")
    for each in dataset["metrics"]:
        server.reader.rows(f"SELECT {each['expression']} FROM {view}")


@pytest.mark.parametrize("name", of_kind(FILES, "charts"))
def test_the_sql_filters_of_a_chart_are_valid(server: Server, name: str) -> None:
    chart = FILES[name]
    [view] = [
        each["table_name"]
        for each in of_kind(FILES, "datasets").values()
        if each["uuid"] == chart["dataset_uuid"]
    ]
    for each in chart["params"]["adhoc_filters"]:
        if each["expressionType"] == "SQL":
            server.reader.rows(f"SELECT 1 FROM {view} WHERE {each['sqlExpression']} LIMIT 1")


LINES = [
    (name, metric)
    for name, each in of_kind(FILES, "charts").items()
    if each["viz_type"] == "echarts_timeseries_line"
    for metric in each["params"]["metrics"]
]


@pytest.mark.parametrize(("name", "metric"), LINES)
def test_a_line_chart_has_a_gap_in_hours_without_measurements(
    server: Server, name: str, metric: str
) -> None:
    """An hour without rows is NULL in a Nullable metric, and 0 in any other (gaps.py).

    For a count 0 is correct: no host sent a line.
    """
    [dataset] = [
        each
        for each in of_kind(FILES, "datasets").values()
        if each["uuid"] == FILES[name]["dataset_uuid"]
    ]
    [sql] = [each["expression"] for each in dataset["metrics"] if each["metric_name"] == metric]
    [(kind,)] = server.reader.rows(f"SELECT toTypeName({sql}) FROM {dataset['table_name']}")
    is_count = kind == "UInt64"
    assert is_count or kind.startswith("Nullable"), (
        f"Add OrNull to the function of the metric: {sql}."
    )
