"""Columns that a browser draws as HTML are safe for names that an attacker would choose."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

import pytest

from stunwatch.dashboards.assets import of_kind
from tests.clickhouse_server import Server
from tests.dashboards import night
from tests.dashboards.files import FILES

DRAWN = [
    (dataset["table_name"], column["column_name"], column["expression"])
    for dataset in of_kind(FILES, "datasets").values()
    for column in dataset["columns"]
    if column["column_name"].endswith(("_link", "_text"))
]


class Cell(HTMLParser):
    """The elements of a cell, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def filled(server: Server) -> Iterator[Server]:
    night.fill(server)
    yield server
    server.empty()


def cells(server: Server, table: str, column: str) -> list[Cell]:
    [expression] = [sql for found, name, sql in DRAWN if (found, name) == (table, column)]
    rows = server.as_("reader").rows(f"SELECT DISTINCT {expression} FROM {table}")
    return [Cell(html) for (html,) in rows if html]


def test_a_name_becomes_one_link_with_the_name_as_text_and_parameter(filled: Server) -> None:
    for table, column in [
        ("stuns_by_time", "vm_link"),
        ("stuns_by_time", "vm_at_link"),
        ("stuns_with_incidents", "vm_at_link"),
        ("vm_storage", "vm_link"),
    ]:
        found = cells(filled, table, column)
        assert {each.text for each in found} == {night.WORST_VM, *night.HOSTILE}
        for each in found:
            [(tag, attributes)] = each.elements
            assert (tag, set(attributes)) == ("a", {"href"})
            address = urlsplit(attributes["href"] or "")
            assert (address.scheme, address.netloc, address.path) == ("", "", "/entity/vm")
            assert parse_qs(address.query)["vm"] == [each.text]
            assert parse_qs(address.query)["datastore"] == [night.DATASTORE]


def test_a_text_is_shown_unchanged(filled: Server) -> None:
    for table, column, said in [
        ("incident_hosts", "verdict_text", "verdict"),
        ("lines_shown", "line_text", "line"),
    ]:
        rows = filled.as_("reader").rows(f"SELECT DISTINCT {said} FROM {table}")
        found = cells(filled, table, column)
        assert {each.text for each in found} == {text for (text,) in rows}
        assert {tag for each in found for tag, _ in each.elements} == {"span"}
        assert any("<b>" in each.text for each in found)


def test_the_link_of_a_stun_covers_one_minute_before_and_after_it(filled: Server) -> None:
    [worst] = [
        parse_qs(urlsplit(each.elements[0][1]["href"] or "").query)
        for each in cells(filled, "stuns_with_incidents", "lines_link")
        if f"to={int(night.WORST_AT.timestamp()) + 60}" in str(each.elements)
    ]
    assert worst["from"] == [str(int(night.WORST_AT.timestamp()) - night.WORST_S - 60)]
    assert worst["host"] == [night.FOLDER]


def test_an_incident_is_a_link_to_its_report(filled: Server) -> None:
    for table in ("incident_names", "stuns_with_incidents", "incident_hosts"):
        [cell] = cells(filled, table, "incident_link")
        assert cell.elements == [("a", {"href": f"/incident/{night.incident_id()}"})]
        assert cell.text == str(night.incident_id())[:8]


@pytest.mark.parametrize(("table", "column", "expression"), DRAWN)
def test_the_user_reader_can_query_every_link_column(
    filled: Server, table: str, column: str, expression: str
) -> None:
    filled.as_("reader").rows(f"SELECT {expression} AS {column} FROM {table} LIMIT 1")


def test_a_host_and_its_lun_and_datastore_link_to_each_other(filled: Server) -> None:
    [place] = filled.as_("reader").rows(
        "SELECT datastore, device, host FROM vm_storage WHERE vm = {vm:String}",
        {"vm": night.WORST_VM},
    )
    assert place == (night.DATASTORE, night.DEVICE, night.HOST)
