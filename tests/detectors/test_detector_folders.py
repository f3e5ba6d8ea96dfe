"""Every detector's folder has the contents that readers and the other tests rely on."""

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from stunwatch.detectors.catalogue import Detector, detectors
from stunwatch.detectors.records import verbatim
from tests.detectors.cases import cases_of, joins_of, records_of, run

SCHEMAS = Path(__file__).parents[2] / "schemas"
ALL = [pytest.param(detector, id=detector.name) for detector in detectors()]
WITH_CASES = [each for each in ALL if each.values[0].owner != "operation"]
"""The lines of one operation's log give no event: its cases are joins (test_joins)."""

FIELDS = ["name", "version", "what", "topic", "owner", "literals", "patterns", "thresholds"]
UNITS = ("ms", "seconds", "minutes", "hours", "days", "percent", "count")


@pytest.mark.parametrize("detector", ALL)
def test_the_yaml_has_the_name_of_its_folder(detector: Detector) -> None:
    fields = yaml.safe_load((detector.folder / "detector.yaml").read_text())
    assert list(fields) == FIELDS
    assert detector.name == detector.folder.name
    assert detector.owner in ("vm", "host", "migration", "operation")
    assert re.fullmatch(r"events\.[a-z_]+", detector.topic)
    assert not any("\n" in literal for literal in detector.literals)


@pytest.mark.parametrize("detector", ALL)
def test_the_title_of_the_readme_is_the_name_of_the_detector(detector: Detector) -> None:
    assert (detector.folder / "README.md").read_text().startswith(f"# {detector.name}\n")


@pytest.mark.parametrize("detector", ALL)
def test_thresholds_end_with_their_unit(detector: Detector) -> None:
    assert all(name.endswith(UNITS) for name in detector.thresholds)


@pytest.mark.parametrize("detector", ALL)
def test_each_pattern_matches_the_line_above_it(detector: Detector, tmp_path: Path) -> None:
    text = (detector.folder / "detector.yaml").read_text()
    for name, pattern in detector.patterns.items():
        above = re.search(rf"^  # (.+)\n  {name}: ", text, re.MULTILINE)
        assert above, f"no line stands above {name}"
        example = tmp_path / "vmware.log"
        example.write_text(above[1] + "\n")
        [record] = records_of(example, detector.owner)
        assert verbatim(record) == above[1]
        assert pattern.search(record["message"])
        assert any(literal in record["message"] for literal in detector.literals)


@pytest.mark.parametrize("detector", ALL)
def test_a_detector_that_needs_several_logs_has_joins(detector: Detector) -> None:
    assert detector.owner != "operation" or joins_of(detector)


@pytest.mark.parametrize("detector", WITH_CASES)
def test_cases_include_a_match_a_near_miss_and_lines_out_of_order(detector: Detector) -> None:
    cases = cases_of(detector)
    sizes = [(case / "expected.jsonl").stat().st_size for case in cases]
    assert any(sizes), "no case fires"
    assert 0 in sizes, "no case nearly fires"
    out_of_order = []
    for case in cases:
        times = [
            record["event_time_us"] for record in records_of(case / "input.log", detector.owner)
        ]
        out_of_order.append(times != sorted(times))
    assert any(out_of_order), "no case is out of order"


@pytest.mark.parametrize("detector", ALL)
def test_events_match_the_schema_of_their_topic(detector: Detector) -> None:
    schemas = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.schema.json")]
    [schema] = [schema for schema in schemas if detector.topic in schema.get("x-topics", [])]
    for case in cases_of(detector):
        for event in run(detector, records_of(case / "input.log", detector.owner)):
            Draft202012Validator(schema).validate(event)
            assert event["detector"] == detector.name
            assert event["run_id"] == "case"
