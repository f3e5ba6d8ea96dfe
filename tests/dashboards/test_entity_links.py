"""The addresses that links to a VM, datastore, LUN or host redirect to."""

from __future__ import annotations

import runpy
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from stunwatch.dashboards.assets import of_kind
from stunwatch.settings import ROOT
from tests.dashboards.files import FILES
from tests.dashboards.night import HOSTILE

MODULE: dict[str, Any] = runpy.run_path(str(ROOT / "infra" / "superset" / "entity_links.py"))
LONGEST = 8190 - len("GET  HTTP/1.1")
"""Maximum characters of an address in gunicorn (infra/superset/gunicorn.conf.py)."""


def filters(kind: str, **values: list[str]) -> str:
    """Return the decoded filters of the dashboard's address."""
    address = urlsplit(MODULE["dashboard_address"](kind, values))
    assert address.path == "/superset/dashboard/entities/"
    assert (address.scheme, address.netloc) == ("", "")
    [found] = parse_qs(address.query)["native_filters"]
    return found


def test_a_link_filters_by_its_names_and_times() -> None:
    assert filters("vm", vm=["sql01"], datastore=["san-1"], **{"from": ["60"], "to": ["180"]}) == (
        "(NATIVE_FILTER-vm:(id:NATIVE_FILTER-vm,"
        "extraFormData:(filters:!((col:vm,op:IN,val:!('sql01')))),"
        "filterState:(value:!('sql01'))),"
        "NATIVE_FILTER-datastore:(id:NATIVE_FILTER-datastore,"
        "extraFormData:(filters:!((col:datastore,op:IN,val:!('san-1')))),"
        "filterState:(value:!('san-1'))),"
        "NATIVE_FILTER-time_range:(id:NATIVE_FILTER-time_range,"
        "extraFormData:(time_range:'1970-01-01T00:01:00 : 1970-01-01T00:03:00'),"
        "filterState:(value:'1970-01-01T00:01:00 : 1970-01-01T00:03:00')))"
    )


def test_a_link_without_a_time_shows_all_times() -> None:
    assert filters("host", host=["esx01"]).endswith("extraFormData:(),filterState:()))")


def test_the_names_of_a_host_are_alternatives() -> None:
    assert "val:!('esx01','esx01.lab'))" in filters("host", host=["esx01", "esx01.lab", "esx01"])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_inside_its_quotation_marks(name: str) -> None:
    escaped = name.replace("!", "!!").replace("'", "!'")
    assert f"value:!('{escaped}')" in filters("vm", vm=[name])


def test_names_of_the_maximum_length_fit_into_an_address() -> None:
    longest = ["🖥" * (MODULE["LONGEST_NAME"] // 4)]
    values = dict.fromkeys(("vm", "datastore", "host"), longest)
    address = MODULE["dashboard_address"]("vm", values | {"from": ["1"], "to": ["2"]})
    assert len(address) < LONGEST


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("cluster", {"cluster": ["a"]}),
        ("vm", {}),
        ("vm", {"vm": [""]}),
        ("vm", {"datastore": ["san-1"]}),
        ("vm", {"vm": ["x" * 256]}),
        ("vm", {"vm": list("abcde")}),
        ("vm", {"vm": ["a"], "from": ["yesterday"]}),
        ("vm", {"vm": ["a"], "from": ["-1"]}),
        ("vm", {"vm": ["a"], "to": ["9" * 5000]}),
        ("vm", {"vm": ["a"], "to": ["٣"]}),
        ("../login", {"vm": ["a"]}),
    ],
)
def test_an_invalid_link_is_refused(kind: str, values: dict[str, list[str]]) -> None:
    with pytest.raises(MODULE["BadLinkError"]):
        MODULE["dashboard_address"](kind, values)


def test_a_link_opens_a_tab_of_the_dashboard() -> None:
    dashboard = of_kind(FILES, "dashboards")["dashboards/entities.yaml"]
    shown = {tab: dashboard["position"][tab]["meta"]["text"] for tab in MODULE["TABS"].values()}
    assert list(shown.values()) == ["VM", "Datastore", "LUN", "Host"]
    assert list(shown) == dashboard["position"]["TABS-1"]["children"]
    ids = {each["id"] for each in dashboard["metadata"]["native_filter_configuration"]}
    assert {f"NATIVE_FILTER-{kind}" for kind in (*MODULE["TABS"], "time_range")} <= ids
