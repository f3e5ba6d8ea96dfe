"""The findings of `doctor`, `up` and `demo` on a machine, from simulated facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stunwatch.errors import UserError
from stunwatch.local import diagnosis
from stunwatch.local.diagnosis import Download, Machine, findings, require
from stunwatch.settings import Settings, load_settings

HOME, BUILD = Path("/data/var"), Path("/data/build")
SETTINGS = replace(load_settings({}), home=HOME, build=BUILD)
KAFKA = Download("Apache Kafka", "mvn", 100)
SUPERSET = Download("Apache Superset", "/env/bin/uv", 1500)

DEBIAN_12 = Machine(
    python=(3, 11),
    missing_packages=(),
    java=17,
    has_javac=True,
    tools={"mvn": "/usr/bin/mvn", "npm": "/usr/bin/npm", "fluent-bit": "/usr/bin/fluent-bit"},
    downloads=(),
    system="Linux",
    processor="x86_64",
    flags=frozenset({"sse4_2", "avx2"}),
    clickhouse=None,
    unwritable=(),
    home_free_mb=20_000,
    build_free_mb=20_000,
    is_one_disk=True,
    available_mb=8_000,
    is_up=False,
    busy_ports=(),
    receive_buffer=8 << 20,
)
TOOLS = DEBIAN_12.tools
NO_TOOLS: dict[str, str | None] = {"mvn": None, "npm": None, "fluent-bit": None}

CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "debian_12": ({}, {}),
    "debian_13_with_uvs_python": ({"python": (3, 12), "java": 21}, {}),
    "ubuntu_24_04": ({"python": (3, 12), "java": 21}, {}),
    "arm64_with_clickhouse": (
        {"processor": "aarch64", "flags": frozenset(), "clickhouse": "/usr/bin/clickhouse"},
        {},
    ),
    "arm64_without_clickhouse": (
        {"processor": "aarch64", "flags": frozenset()},
        {"ClickHouse": "missing: The embedded ClickHouse is not published for aarch64: install"},
    ),
    "macos": (
        {"system": "Darwin", "clickhouse": "/c"},
        {"system": "missing: The pipeline runs on"},
    ),
    "python_3_13": (
        {"python": (3, 13)},
        {"Python": "missing: PyFlink runs on Python 3.11 to 3.12"},
    ),
    "python_3_10": (
        {"python": (3, 10)},
        {"Python": "missing: PyFlink runs on Python 3.11 to 3.12"},
    ),
    "core_alone": (
        {"missing_packages": ("apache-flink", "supervisor")},
        {"packages": "missing: Not installed: apache-flink, supervisor. Install stunwatch"},
    ),
    "core_alone_without_uv": (
        {
            "missing_packages": ("apache-flink",),
            "downloads": (SUPERSET,),
            "tools": TOOLS | {"/env/bin/uv": None},
        },
        {"packages": "missing: Not installed: apache-flink. Install"},
    ),
    "no_java": ({"java": None}, {"Java": "missing: Java is missing"}),
    "java_11": ({"java": 11}, {"Java": "missing: Java 11 is too old: install a JDK of version 17"}),
    "java_23": ({"java": 23}, {}),
    "java_25": ({"java": 25}, {"Java": "missing: Java 25 is too new, Flink 2.2.1 does not start"}),
    "jre_and_all_downloaded": ({"has_javac": False}, {}),
    "jre_and_nothing_downloaded": (
        {"has_javac": False, "java": 21, "downloads": (KAFKA,)},
        {"Java": "missing: Java 21 has no compiler javac: install the JDK"},
    ),
    "no_maven_and_nothing_downloaded": (
        {"tools": TOOLS | {"mvn": None}, "downloads": (KAFKA,)},
        {"Maven": "missing: Maven is missing (no 'mvn' on the PATH): install maven."},
    ),
    "no_tools_and_all_downloaded": (
        {"tools": NO_TOOLS},
        {
            "Maven": "lacking: Install maven before the next update.",
            "npm": "lacking: Install npm before the next update.",
            "Fluent Bit": "lacking: Live lines come in through Fluent Bit",
        },
    ),
    "no_npm_but_clickhouse": ({"tools": TOOLS | {"npm": None}, "clickhouse": "/c"}, {}),
    "no_uv_for_superset": (
        {"tools": TOOLS | {"/env/bin/uv": None}, "downloads": (SUPERSET,)},
        {"uv": "missing: uv is missing"},
    ),
    "no_avx2": (
        {"flags": frozenset({"sse4_2"})},
        {"ClickHouse": "missing: The embedded ClickHouse needs a processor with AVX2"},
    ),
    "hidden_flags": (
        {"flags": frozenset()},
        {"ClickHouse": "lacking: Cannot tell whether the processor has AVX2."},
    ),
    "read_only": (
        {"unwritable": (HOME,)},
        {"folders": "missing: Cannot write to /data/var: change the permissions, or name other"},
    ),
    "full_disk": (
        {"home_free_mb": 1000},
        {"disk": "missing: The file system of /data/var has 1000 MiB free; 1024 are needed"},
    ),
    "no_room_to_download_on_one_disk": (
        {"home_free_mb": 2000, "downloads": (SUPERSET,), "tools": TOOLS | {"/env/bin/uv": "/uv"}},
        {"disk": "missing: The file system of /data/var has 2000 MiB free; 2524 are needed"},
    ),
    "no_room_to_download_on_a_disk_of_its_own": (
        {"is_one_disk": False, "build_free_mb": 90, "downloads": (KAFKA,)},
        {"disk for downloads": "missing: The file system of /data/build has 90 MiB free; 100"},
    ),
    "little_memory": (
        {"available_mb": 3000},
        {"memory": "lacking: The pipeline takes up to 5120 MiB."},
    ),
    "little_memory_left_while_it_runs": ({"available_mb": 3000, "is_up": True}, {}),
    "busy_port": (
        {"busy_ports": ("Port 19092, which kafka needs, is taken by java, pid 7: end that.",)},
        {"ports": "missing: Port 19092, which kafka needs, is taken by java, pid 7"},
    ),
    "small_udp_buffer": (
        {"receive_buffer": 212_992},
        {"UDP buffer": "lacking: Syslog over UDP loses lines under load"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_findings_on_each_machine(name: str) -> None:
    changes, expected = CASES[name]
    found = findings(replace(DEBIAN_12, **changes), SETTINGS)
    told = {each.what: f"{each.grade}: {each.remedy}" for each in found if each.grade != "good"}
    assert told.keys() == expected.keys()
    for what, text in expected.items():
        assert told[what].startswith(text)


def test_up_reports_everything_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(DEBIAN_12, java=None, unwritable=(HOME,), available_mb=100)
    monkeypatch.setattr(diagnosis, "look", lambda _: machine)
    with pytest.raises(UserError) as caught:
        require(SETTINGS)
    first, java, folders = str(caught.value).splitlines()
    assert first == "2 things are missing on this machine:"
    assert java.startswith("  Java is missing")
    assert folders.startswith("  Cannot write to /data/var")


def test_up_starts_on_a_machine_that_lacks_only_optional_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = replace(DEBIAN_12, tools=NO_TOOLS, available_mb=100, receive_buffer=0)
    monkeypatch.setattr(diagnosis, "look", lambda _: machine)
    require(SETTINGS)


def test_collecting_the_facts_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis.checks, "java_version", lambda: 17)
    settings: Settings = replace(load_settings({}), home=tmp_path / "a" / "home")
    assert diagnosis.look(replace(settings, build=tmp_path / "b")).downloads
    assert list(tmp_path.iterdir()) == []
