"""A masked text contains no name of the original, and parsers read it in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.anonymising.masking import Masker
from stunwatch.anonymising.names import Names, new_finder, spans
from stunwatch.anonymising.pseudonyms import Pseudonyms
from stunwatch.anonymising.vocabulary import needed, readable
from stunwatch.detectors.catalogue import detectors
from stunwatch.ingest.heads import HOST_FILE, Finder
from tests.corpus.cases import cases

KEY = b"a key for tests"
PATTERNS = [(each.name, name) for each in detectors() for name in each.patterns]


def collected(lines: Iterable[tuple[str, bool]], names: Names) -> None:
    """Add the names in lines of one file. The flag of a line is True if a detector reads it."""
    finder = new_finder()
    for line, is_read in lines:
        for span in spans(line, finder, is_read):
            names.add(span.kind, span.text)


def masker_of(lines: list[str], shift: timedelta = timedelta(0)) -> Masker:
    names = Names()
    masker = Masker(Pseudonyms(KEY), names, shift)
    collected(((line, masker.is_read(line)) for line in lines), names)
    names.seal(Pseudonyms(KEY))
    return masker


def masked(lines: list[str], shift: timedelta = timedelta(0)) -> list[str]:
    masker = masker_of(lines, shift)
    return [masker.line(line) for line in lines]


@cache
def own_lines() -> list[tuple[str, list[str]]]:
    """Return every log of the detectors' cases and of the corpus, with its name."""
    logs = [
        (f"{each.name}-{path.parent.name}-{path.stem}", path.read_text().splitlines())
        for each in detectors()
        for folder in ("cases", "joins")
        for path in sorted((each.folder / folder).glob("*/*.log"))
    ]
    return logs + [
        (case.id, list(case.lines))
        for case in cases()
        if case.reads != "esxtop" and not case.is_wrapped
    ]


def reading(line: str) -> tuple[str, set[tuple[str, str]]]:
    """Return the head pattern of a line, and the detectors' patterns that its message matches."""
    found = Finder(HOST_FILE).find(line)
    if found is None:
        return "", set()
    message = found[1][1] or ""
    return found[0].name, {
        (each.name, name)
        for each in detectors()
        if each.concerns(message)
        for name, pattern in each.patterns.items()
        if pattern.search(message)
    }


def test_a_masked_line_matches_the_same_patterns_as_the_original() -> None:
    read = set()
    for name, lines in own_lines():
        for line, made in zip(lines, masked(lines), strict=True):
            before = reading(line)
            assert reading(made) == before, (name, line, made)
            read |= before[1]
    assert len(read) > 0.9 * len(PATTERNS)


# -- No name remains

_KEPT_WORDS = "\n".join(needed() | readable())

_WORD = st.text("ghijklmnopqrstuvwxyzGHJKPQVXZ0123456789", min_size=5, max_size=12).filter(
    lambda word: (
        not word.isdigit()
        # No word that is kept, nor a part of one: `origi` is in `originator`.
        and word.lower() not in _KEPT_WORDS
        # Amounts, event numbers and status codes are kept: `20ms`, `I125`, `0x000`.
        and not re.fullmatch(r"\d+[A-Za-z]{1,5}|[IWEA]\d+|0[xX]\d+", word)
    )
)
_ACCENTED = st.text("äéßñ中村ghk", min_size=4, max_size=9)
_PLAIN = st.sampled_from(["backup", "storage", "device", "host", "disk", "01", "2", "snapshot"])
_PART = st.one_of(_WORD, _WORD, _ACCENTED, _PLAIN)


@st.composite
def names(draw: st.DrawFn, separators: str) -> str:
    """Return a name of one to four words, at least one of which is not a product word."""
    parts = [draw(_WORD), *draw(st.lists(_PART, max_size=3))]
    parts = list(draw(st.permutations(parts)))
    name = parts[0]
    for part in parts[1:]:
        name += draw(st.sampled_from(separators)) + part
    return name + draw(st.sampled_from(["", "", " (1)"] if " " in separators else [""]))


_HEXADECIMAL = "0123456789abcdef"
_UUID = st.text(_HEXADECIMAL, min_size=32, max_size=32).filter(lambda text: not text.isdigit())


@st.composite
def sites(draw: st.DrawFn) -> dict[str, str]:
    octets = draw(st.lists(st.integers(1, 250), min_size=4, max_size=4))
    uuid = draw(_UUID)
    return {
        "label": draw(_WORD),
        "domain": f"{draw(_WORD)}.{draw(_WORD)}",
        "vm": draw(names(" -_.")),
        "ds": draw(names(" -_.")),
        "user": draw(_WORD),
        "realm": draw(_WORD),
        "snap": draw(names(" -_.#")),
        "dc": draw(names(" -_")),
        "ip": ".".join(map(str, [11 + octets[0] % 90, *octets[1:]])),
        "naa": "6" + draw(st.text(_HEXADECIMAL, min_size=31, max_size=31)),
        "volume": f"{uuid[:8]}-{uuid[8:16]}-{uuid[16:20]}-{uuid[20:]}",
        "mac": ":".join(f"{each:02x}" for each in [0, 80, *draw(st.lists(
            st.integers(1, 255), min_size=4, max_size=4))]),
        "password": draw(_WORD),
        "serial": draw(_WORD),
    }  # fmt: skip


LINES = Path(__file__).with_name("lines_of_a_site.txt").read_text().splitlines()


def lines_of(site: dict[str, str]) -> list[str]:
    urls = {f"{name}_url": quote(site[name]) for name in ("vm", "dc", "ds")}
    return [line.format(**site, **urls) for line in LINES]


def atoms(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9\u0080-\U0010ffff]+", text.lower()))


def assert_nothing_remains(site: dict[str, str], made: str) -> None:
    lower = made.lower()
    assert made.isascii()
    for name, value in site.items():
        assert value.lower() not in lower, name
        assert quote(value).lower() not in lower, name
        kept = needed() | readable()
        own = {
            each
            for each in atoms(value)
            if not each.isdigit() and len(each) > 2 and each not in kept
        }
        if name not in ("naa", "volume", "mac", "ip"):
            assert not own & atoms(made), name
    assert site["naa"][7:] not in lower
    assert site["volume"].replace("-", "") not in lower.replace("-", "")


@settings(max_examples=40, deadline=None)
@given(sites())
def test_no_name_or_identifier_remains(site: dict[str, str]) -> None:
    assert_nothing_remains(site, "\n".join(masked(lines_of(site))))


@settings(max_examples=10, deadline=None)
@given(sites())
def test_no_unknown_name_remains_if_only_one_line_contains_it(site: dict[str, str]) -> None:
    """There is no other line that shows that a word is a name."""
    made = [masked([line])[0] for line in lines_of(site)]
    unknown = {name: site[name] for name in ("label", "user", "realm", "serial", "password")}
    for line in made:
        for name, value in unknown.items():
            assert value.lower() not in line.lower(), (name, line)


def test_a_name_that_is_also_a_product_word_is_replaced_only_as_a_name() -> None:
    lines = [
        '2024-05-06T07:08:10.125Z In(05) vmx - X "/vmfs/volumes/storage/device/device.vmdk"',
        "2024-05-06T07:08:09.123Z In(182) vmkernel: cpu7:1)HBX: 1: APD EventType: APD_START (3)"
        " for vol 'storage'",
        "<14>2024-05-06T07:08:09.123Z host device[2104567]: In(05) vcpu-0 - Checkpoint_Unstun: vm"
        " stopped for 48211 us",
    ]
    first, second, third = masked(lines)
    assert re.search(r'"/vmfs/volumes/ds-\w{8}/vm-\w{8}/', first)
    assert re.search(r"for vol 'ds-\w{8}'$", second)
    assert re.search(r"Z host-\w{8} vm-\w{8}\[2104567\]: ", third)


# -- What is kept


@pytest.mark.parametrize(
    "text",
    [
        "H:0x0 D:0x18 P:0x0 Valid sense data: 0x5 0x20 0x0",
        "mpx.vmhba32:C0:T0:L0",
        "vmhba2:C0:T1:L4",
        "[+0.002]",
        "12:03:04:05.678 cpu2:4121)",
        "127.0.0.1 0.0.0.0 255.255.255.0",
        "user=root",
        "'Consolidate Helper- 0'",
    ],
)
def test_text_that_identifies_nothing_is_kept(text: str) -> None:
    assert masked([text]) == [text]


def test_numbers_are_kept_only_in_lines_that_a_detector_reads() -> None:
    read = "2024-05-06T07:08:10.125Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 4821145 us"
    other = "2024-05-06T07:08:10.125Z In(05) vcpu-0 - number 4821145"
    assert masked([read, other])[0] == read
    assert "4821145" not in masked([read, other])[1]


def test_the_short_and_full_name_of_a_host_get_matching_pseudonyms() -> None:
    full, short = masked(["<14>2024-05-06T07:08:09Z esx07.corp.acme vobd: x", "esx07 ESX07"])
    label = re.search(r"host-\w{8}", full)[0]  # type: ignore[index]
    assert short == f"{label} {label}"
    assert re.search(r" host-\w{8}\.x\w{8}\.x\w{8} ", full)


def test_luns_of_one_array_keep_a_common_prefix() -> None:
    one, other, third = (
        Pseudonyms(KEY).device(f"naa.60060160a5b02c00{lun:016x}" if lun else "naa." + "5" * 16)
        for lun in (1, 2, 0)
    )
    assert one[:20] == other[:20] != "naa.60060160a5b02c00"
    assert one[:11] == "naa.6006016"
    assert one != other
    assert third.startswith("naa.5555555")


def test_the_pseudonym_of_a_vml_contains_that_of_its_naa() -> None:
    pseudonyms = Pseudonyms(KEY)
    naa = "60060160a5b02c00c05b3a2b1c0d9e8f"
    made = pseudonyms.device(f"naa.{naa}").removeprefix("naa.")
    assert pseudonyms.device(f"vml.0200040000{naa}565241494420").startswith(f"vml.0200040000{made}")


def test_different_hexadecimal_texts_get_different_pseudonyms() -> None:
    pseudonyms = Pseudonyms(KEY)
    made = {pseudonyms.hexadecimal(f"a{number:03x}") for number in range(4096)}
    assert len(made) == 4096
    assert not any(each.isdigit() for each in made)


@pytest.mark.parametrize("text", ["ab12" * 500, "7a" * 129, "48151623" * 100])
def test_a_long_hexadecimal_number_is_replaced_completely(text: str) -> None:
    [made] = masked([f"dump {text} "])
    assert len(made) == len(f"xxxxxxxxx {text} ")
    assert not any(text[at : at + 16] in made for at in range(0, len(text), 16))


def test_another_key_gives_other_pseudonyms() -> None:
    assert Pseudonyms(b"one").name("vm", "web01") != Pseudonyms(b"two").name("vm", "web01")


# -- Times


@pytest.mark.parametrize(
    ("text", "shifted"),
    [
        ("2024-03-04T05:06:07.089Z| vmx| x", "2024-02-26T05:06:07.089Z| vmx| x"),
        ("[2011-04-01 15:14:34.203 F5A5AB90 info", "[2011-03-25 15:14:34.203"),
        ("<14>Mar  4 05:06:07 vobd: x", "<14>Feb 26 05:06:07 vobd: x"),
        ("Mar 04 05:06:07.089: vcpu-0| x", "Feb 26 05:06:07.089: vcpu-0| x"),
        ("Jan  9 05:06:07 x", "Jan  2 05:06:07 x"),
        ("Jan 12 05:06:07 x", "Jan  5 05:06:07 x"),
        ("Mar 4 2023 05:06:07 x", "Feb 25 2023 05:06:07 x"),
        ("05/06/2024 07:08:09", "04/29/2024 07:08:09"),
        ("2024-13-44 failed", "2024-13-44 failed"),
    ],
)
def test_times_are_shifted_in_every_form(text: str, shifted: str) -> None:
    masker = masker_of([text], timedelta(weeks=1))
    masker.begin(datetime(2024, 5, 6, tzinfo=UTC))
    assert masker.line(text).startswith(shifted)


def test_a_given_year_applies_to_timestamps_and_counts_up() -> None:
    lines = [
        "Feb 28 23:00:00 vobd: x",
        "Feb 29 01:00:00 vobd: since Dec 31 08:00:00",
        "Jun 17 12:00:00 vobd: x",
        "Dec 31 23:30:00 vobd: x",
        "Jan  9 00:30:00 vobd: x",
        "<14>Mar  1 00:30:00 vobd: x",
    ]
    masker = masker_of(lines, timedelta(weeks=1))
    masker.begin(datetime(2024, 5, 6, tzinfo=UTC), ZoneInfo("Asia/Tokyo"), 2008)
    assert [masker.line(each).partition(" vobd")[0] for each in lines] == [
        "Feb 21 23:00:00",
        "Feb 22 01:00:00",
        "Jun 10 12:00:00",
        "Dec 24 23:30:00",
        "Jan  2 00:30:00",
        "<14>Feb 22 00:30:00",  # 2009 has no February 29
    ]


def test_a_shifted_migration_id_is_equal_in_decimal_and_hexadecimal() -> None:
    lines = [
        "2023-06-10T11:40:02.116Z In(05) vmx - MigrateVMXdrToSpec: type: 1 srcIp=<10.20.1.11>"
        " dstIp=<10.20.1.12> mid=50a00d5a7e8bf uuid=4c4c4544-0051-3010-8052-b4c04f4e3132",
        "2023-06-10T11:40:02.117Z In(05) vmx - Migrate_Open: Restoring from <10.20.1.11> with"
        f" migration id {0x50A00D5A7E8BF}",
    ]
    one, other = masked(lines, timedelta(weeks=100))
    shifted = 0x50A00D5A7E8BF - 100 * 7 * 86_400 * 1_000_000
    assert f"mid={shifted:x} " in one
    assert other.endswith(f"migration id {shifted}")


# -- Hostile text


@pytest.mark.parametrize(
    "text",
    ["a " * 60_000, "aa:" * 40_000, "0x" * 60_000, "naa." * 30_000, "1.1.1." * 20_000,
     "password=" * 13_000, "/vmfs/volumes/" * 8_000, "[x] y/" * 20_000, "x-" * 60_000,
     "Nov 1 " * 20_000, "aa " * 40_000, "user=" * 24_000, "\\" * 120_000, "a\\" * 60_000],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_masking_a_long_line_takes_linear_time(text: str) -> None:
    def cost(part: str) -> float:
        masker = masker_of([])
        started = time.process_time()
        collected([(part, True)], Names())
        masker.line(part)
        return time.process_time() - started

    short = max(cost(text[: len(text) // 8]), 0.002)
    assert cost(text) < 40 * short
