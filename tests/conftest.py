"""Shared by all tests: tiers, services, and the report of where the time went.

tests/README.md explains how to choose the tier of a new test.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from hypothesis import HealthCheck, settings

from stunwatch.settings import load_settings, variable
from tests.clickhouse_server import Server, running
from tests.kafka_and_clickhouse import Storing, storing
from tests.pipeline import STARTS_PROCESSES, Pipeline, settings_in

# Always the same examples: a run fails because of a change, not because of its seed. No deadline:
# the time of an example depends on how busy the machine is.
settings.register_profile(
    "same_examples",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same_examples")

TIERS = ("unit", "integration", "slow", "release")

SERVICES = ("pipeline", "stored", "server")
"""The shared fixtures that start components, the slowest first."""

COMPILED = "vcenter"
"""The fixture of a simulated vCenter, which must be compiled first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. Without --screenshots, tests write no pictures into the tree.

    With --secure, the pipelines of the tests require TLS and passwords, as with `up --secure`.
    """
    parser.addoption(
        "--tier", default="unit,integration", help=f"Of {', '.join(TIERS)}; several with commas."
    )
    parser.addoption("--secure", action="store_true", help="Test on secured pipelines.")
    parser.addoption("--screenshots", type=Path, help="A folder for pictures of the dashboards.")


# -- Tiers


def tier_of(item: pytest.Item) -> str:
    """Return the tier of a test: its marker, or the tier that its fixtures require.

    Raises:
        pytest.UsageError: it is marked with two tiers.
    """
    marked = [each for each in TIERS if item.get_closest_marker(each)]
    own = {each.name for each in item.own_markers} & {*TIERS}
    if len(own) > 1:
        raise pytest.UsageError(f"{item.nodeid} is marked with two tiers: {', '.join(own)}")
    if own:
        return own.pop()
    if marked:
        return marked[-1]
    uses = {*getattr(item, "fixturenames", ())}
    if COMPILED in uses:
        return "slow"
    return "integration" if {*SERVICES, "pipelines"} & uses else "unit"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of the wanted tiers; put tests that share a service on the same worker."""
    wanted = config.getoption("--tier").split(",")
    tiers = {item: tier_of(item) for item in items}
    config.hook.pytest_deselected(items=[each for each in items if tiers[each] not in wanted])
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in (each for each in items if tiers[each] in wanted):
        item.user_properties.append(("tier", tiers[item]))
        uses = getattr(item, "fixturenames", ())
        module = item.nodeid.partition("::")[0]
        name = next((each for each in SERVICES if each in uses), module)
        item.add_marker(pytest.mark.xdist_group(name))
        groups[name].append(item)
    ordered = in_order({name: tiers[group[0]] for name, group in groups.items()}, groups)
    items[:] = [item for name in ordered for item in groups[name]]


def in_order(tiers: dict[str, str], groups: dict[str, list[pytest.Item]]) -> list[str]:
    """Return the groups of tests in the order in which workers take them.

    Tests of the services come first, because they take longest. Slow modules with a pipeline of
    their own are spread between the others, so that few of them run at the same time. Flink's
    mini-clusters come last, long after the start of the pipeline.
    """
    services = [name for name in SERVICES if name in groups]
    modules = [name for name in groups if name not in services]
    slow = [name for name in modules if tiers[name] == "slow"]
    heavy = [name for name in slow if hasattr(getattr(groups[name][0], "module", None), "Pipeline")]
    light = [name for name in slow if name not in heavy]
    spread = [(n / len(each), name) for each in (heavy, light) for n, name in enumerate(each)]
    rest = [name for name in modules if name not in slow]
    rest.sort(key=lambda name: ("/flink/" in name, tiers[name] == "unit"))
    return [*services, *(name for _, name in sorted(spread)), *rest]


# -- Protection of the developer's own data

USERS = load_settings({})
"""The pipeline of this checkout, which may be running with real logs."""

os.environ |= {
    variable("home"): str(Path(tempfile.gettempdir()) / "stunwatch-tests-have-no-home"),
    # For tests, and commands started by tests, without settings of their own: nothing listens on
    # these ports.
    **{name: str(port) for port, (_, name, _) in enumerate(USERS.ports(), 1)},
}


class UsersDataError(Exception):
    """A test accesses the pipeline or the data of the developer who runs the tests."""


class _UsersDataGuard:
    """Raises if code connects to the ports of the user's pipeline or writes to its folder."""

    PORTS = frozenset(port for *_, port in USERS.ports())
    HOME = f"{USERS.home}{os.sep}"

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            address = arguments[1]
            if isinstance(address, tuple) and address[1] in self.PORTS:
                raise UsersDataError(f"connects to port {address[1]}")
        elif event == "open":
            path, _, flags = arguments
            if flags & (os.O_WRONLY | os.O_RDWR) and str(path).startswith(self.HOME):
                raise UsersDataError(f"writes to {path}")


def _refuse_users_kafka(configuration: dict[str, Any]) -> None:
    """Check librdkafka's configuration, because its connections raise no audit event."""
    if configuration.get("bootstrap.servers") == USERS.bootstrap:
        raise UsersDataError(f"connects to {USERS.bootstrap}")


class _Producer(confluent_kafka.Producer):
    def __init__(self, configuration: dict[str, Any], *more: Any, **named: Any) -> None:
        _refuse_users_kafka(configuration)
        super().__init__(configuration, *more, **named)


class _Consumer(confluent_kafka.Consumer):
    def __init__(self, configuration: dict[str, Any], *more: Any, **named: Any) -> None:
        _refuse_users_kafka(configuration)
        super().__init__(configuration, *more, **named)


_plain_init = confluent_kafka.admin.AdminClient.__init__


def _admin_init(client: Any, configuration: dict[str, Any], **named: Any) -> None:
    _refuse_users_kafka(configuration)
    _plain_init(client, configuration, **named)


# A class written in C cannot be changed, so it is replaced. A Python class cannot be replaced,
# because its methods refer to it by name, so its method is changed.
for _place, _name, _guarded in (
    (confluent_kafka, "Producer", _Producer),
    (confluent_kafka, "Consumer", _Consumer),
    (confluent_kafka.admin.AdminClient, "__init__", _admin_init),
):
    setattr(_place, _name, _guarded)
sys.addaudithook(_UsersDataGuard())


class _Guard:
    """Raises if a unit test starts a component or connects to another machine."""

    FORBIDDEN = ("java", "mvn", "npm", "node", "go", "vcsim", "promtool", "kustomize", "chromium")

    def __init__(self) -> None:
        self.tier = ""

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.tier != "unit":
            return
        if event == "subprocess.Popen":
            words = [str(each) for each in (arguments[1] or ())]
            program = Path(words[0] if words else str(arguments[0])).name
            found = shutil.which(words[0], path=(arguments[3] or os.environ).get("PATH"))
            if found and found.startswith(tempfile.gettempdir()):
                return  # a stand-in that the test wrote
            is_started = program == "stunwatch" and words[1:2] and words[1] in STARTS_PROCESSES
            if program in self.FORBIDDEN or "stunwatch.local.launch" in words or is_started:
                raise NotAUnitTestError(f"starts {program}")
        elif event == "socket.connect":
            address = arguments[1]
            if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
                raise NotAUnitTestError(f"connects to {address[0]}")
        elif event == "ctypes.dlopen" and "chdb" in str(arguments[0]):
            raise NotAUnitTestError("loads ClickHouse")


class NotAUnitTestError(Exception):
    """A test without a marker does what only tests of another tier may do."""


_guard = _Guard()
sys.addaudithook(_guard)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Set the guard's tier to that of the running test."""
    _guard.tier = tier_of(item)
    try:
        return (yield)
    finally:
        _guard.tier = ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Clear the guard's tier, because shared services may end after a unit test."""
    _guard.tier = ""
    return (yield)


# -- Services

_running: list[Pipeline] = []
"""The shared pipeline of this worker, once it is up."""


@pytest.fixture(scope="session")
def pipeline(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Pipeline]:
    """One pipeline for all tests that only add data."""
    home, is_secured = tmp_path_factory.mktemp("pipeline"), pytestconfig.getoption("--secure")
    made = Pipeline(settings_in(home, secure=is_secured, metrics=True))
    try:
        made.run("up")
        _running.append(made)
        yield made
        assert_audited(made)
    finally:
        made.run("down")


@pytest.fixture
def pipelines(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Callable[..., Pipeline]]:
    """Create pipelines for a single test that changes them in ways others must not see."""
    made: list[Pipeline] = []

    def make(home: Path = tmp_path / "home", **more: Any) -> Pipeline:
        more = {"secure": pytestconfig.getoption("--secure")} | more
        made.append(Pipeline(settings_in(home, **more)))
        return made[-1]

    yield make
    for each in made:
        each.run("down")


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storing]:
    """Kafka and ClickHouse without Flink."""
    with storing(tmp_path_factory.mktemp("storing")) as made:
        yield made


@pytest.fixture(scope="session")
def clickhouse_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("clickhouse")) as made:
        # Test cases have fixed dates in the past, so a TTL of 30 days would delete them at the next
        # merge.
        for table in ("source_activity", "source_half_days", "activity_intervals"):
            made.admin.command(f"SYSTEM STOP TTL MERGES {table}_stored")
        yield made


@pytest.fixture(scope="module")
def server(clickhouse_server: Server) -> Server:
    """One ClickHouse for all tests; empty at the start of each module."""
    dropped = set(clickhouse_server.created) - set(clickhouse_server.names())
    assert not dropped, f"an earlier module dropped {sorted(dropped)}"
    clickhouse_server.empty()
    return clickhouse_server


@pytest.fixture(scope="module", autouse=True)
def made_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """Record the differences left by a module marked `made_up`, such as events without lines."""
    yield
    if _running and request.node.get_closest_marker("made_up"):
        [made] = _running
        made.known_differences |= made.differences()


def assert_audited(made: Pipeline) -> None:
    """Assert that lines, events and files agree, except for known differences."""
    deadline = time.monotonic() + 20
    while new := made.differences() - made.known_differences:
        # A live line may be stored before its event.
        assert time.monotonic() < deadline, f"lines, events and files differ: {sorted(new)}"
        time.sleep(0.5)
    # The job continues when a detector fails, so a failure must be checked here.
    failed = made.rows(
        "SELECT reason, host, vm, substring(line, 1, 300) FROM rejected_lines"
        " WHERE startsWith(reason, 'detector ') LIMIT 5"
    )
    assert not failed, f"detectors failed: {failed}"


# -- Where the time went

_fixtures: dict[str, list[float]] = defaultdict(list)
"""Seconds of every setup, by fixture name."""


class _Stopwatch:
    """A separate plugin, because pytest does not call a conftest's hooks for session fixtures."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            if fixturedef.scope in ("session", "module", "package"):
                _fixtures[fixturedef.argname].append(time.monotonic() - began)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Stopwatch())
    if "release" not in config.getoption("--tier"):
        # Most Java processes of the tests end before the second compiler's work pays off.
        os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's measurements to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["fixtures"] = dict(_fixtures)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for name, seconds in getattr(node, "workeroutput", {}).get("fixtures", {}).items():
        _fixtures[name] += seconds


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the seconds by tier and by shared fixture."""
    by_tier: dict[str, list[float]] = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for each in reports:
            if isinstance(each, pytest.TestReport):
                tier = dict(each.user_properties).get("tier", "")
                by_tier[str(tier)].append(each.duration if each.when == "call" else 0.0)
    terminalreporter.section("where the time went")
    for tier, seconds in sorted(by_tier.items()):
        tests = sum(1 for each in seconds if each)
        terminalreporter.write_line(f"{sum(seconds):7.1f} s  {tier} tests ({tests})")
    slowest = sorted(_fixtures.items(), key=lambda each: -sum(each[1]))
    for name, seconds in [each for each in slowest if sum(each[1]) >= 0.5][:20]:
        times = f" ({len(seconds)} times)" if len(seconds) > 1 else ""
        terminalreporter.write_line(f"{sum(seconds):7.1f} s  fixture {name}{times}")
