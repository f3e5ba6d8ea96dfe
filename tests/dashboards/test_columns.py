"""Every query of every chart against a real ClickHouse: columns exist, expressions are right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stunwatch.dashboards import assets
from stunwatch.dashboards.assets import of_kind
from tests.investigations.server import Server, running

FILES = assets.read()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("dashboards")) as made:
        yield made


@pytest.mark.parametrize("name", of_kind(FILES, "datasets"))
def test_a_dataset_is_as_its_view(server: Server, name: str) -> None:
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
def test_a_charts_own_conditions_are_understood(server: Server, name: str) -> None:
    chart = FILES[name]
    [view] = [
        each["table_name"]
        for each in of_kind(FILES, "datasets").values()
        if each["uuid"] == chart["dataset_uuid"]
    ]
    for each in chart["params"]["adhoc_filters"]:
        if each["expressionType"] == "SQL":
            server.reader.rows(f"SELECT 1 FROM {view} WHERE {each['sqlExpression']} LIMIT 1")
