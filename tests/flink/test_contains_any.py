"""The function `contains_any` of SQL, in Java."""

from __future__ import annotations

import pytest
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment

pytestmark = pytest.mark.integration


def test_several_calls_in_a_query_prepare_their_literals_once(java_classes: str) -> None:
    """They share one object, and preparing takes longer than the search in a line."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("pipeline.jars", java_classes)
    jvm = get_gateway().jvm
    function = jvm.io.github.stunwatch.ContainsAny()
    function.open(jvm.org.apache.flink.table.functions.FunctionContext(None, None, None))
    field = function.getClass().getDeclaredField("prepared")
    field.setAccessible(True)
    prepared = []
    for _ in range(2):
        assert function.eval("a stun begins", "stun\nsnapshot", 100)
        assert not function.eval("a stun begins", "reservation", 100)
        prepared.append(dict(field.get(function)))
    before, after = prepared
    assert before.keys() == {"stun\nsnapshot", "reservation"}
    assert all(after[literals].equals(before[literals]) for literals in before)
