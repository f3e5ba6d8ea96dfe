"""Hostile log lines that a broken host, relay or attacker may send. Deterministic by seed.

`literal_lines`, `dated_lines` and `mutants` yield messages as sent by syslog, without framing;
`messages` yields all three, in turn and endlessly. A message may contain any byte except a line
feed, so that it stays one message on newline-framed TCP.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import cycle

from stunwatch.detectors.catalogue import detectors
from tests.corpus.cases import cases as corpus_cases

MANY = 4400
"""Number of digits: Python refuses to convert more than 4300."""

TAILS: dict[str, bytes] = {
    "nothing": b"",
    "digits": b"9" * MANY,
    "negative": b" -1 -" + b"9" * 40 + b" 0x" + b"f" * 40 + b" 1e999 nan inf",
    "spaces": b" " * 8000,
    "nested": b"([{<'\"" * 700,
    "controls": bytes(each for each in range(1, 32) if each != 10) + b"\x7f\x1b]52;c;QUFB\x07",
    "bytes": b"\xff\xfe\xc3\x28\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf",
    "unicode": "\u202egol.\u2066\u0661\u0662\u0663\u00b2\ufeff\U000e0041\U0001f4a5".encode(),
    "nul": b"\0 after a NUL\0",
    "quoted": b" 'a', b='c\\', naa.6\" for vol '\" (eql' on path \"vmhba1:C0:T0:L0\" = : ; ,,",
}
"""The tails that follow each literal."""

HEADS = {
    "vm": b"<14>%s esx66.lab.example fuzz-vm[71]: In(05) vcpu-0 - ",
    "host": b"<181>%s esx66.lab.example vmkernel: cpu3:2097345)",
}
"""Heads, by the kind of log that a detector reads; the timestamp is filled in."""

STAMP = b"2024-05-06T07:08:09.123Z"

NUMBERS = (b"0", b"-1", b"4294967296", b"9" * 20, b"9" * MANY, b"1e400", b"00000000000000000001")


def literal_lines(stamp: bytes = STAMP) -> Iterator[bytes]:
    """Yield every literal of every detector before each of the tails."""
    for each in detectors():
        head = HEADS["vm" if each.owner == "vm" else "host"] % stamp
        for literal in each.literals:
            for tail in TAILS.values():
                yield head + literal.encode() + tail


def dated_lines() -> Iterator[bytes]:
    """Yield a stun and a lost volume in every month from 1970 to 2199, in all timestamp formats."""
    for month in range(230 * 12):
        year, number = 1970 + month // 12, month % 12 + 1
        iso = b"%04d-%02d-28T23:59:%02d.999Z" % (year, number, month % 61)
        yield HEADS["vm"] % iso + b"Checkpoint_Unstun: vm stopped for 3658889 us"
        zoned = iso.replace(b"Z", b"%+03d:59" % (month % 47 - 23))
        yield HEADS["host"] % zoned + b"Lost access to volume 5f-1 (ds-gold) due to connectivity"
        name = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()[number - 1]
        yield (
            b"<14>%s %2d 24:60:%02d esx66 vobd: [vob.vmfs.heartbeat.timedout] %d"
            % (name, month % 40, month % 70, year)
        )


@cache
def samples() -> tuple[tuple[str, bytes], ...]:
    """Return all lines of the corpus and of all cases: (`vmware_log` or `syslog`, line)."""
    found = [
        ("vmware_log" if case.reads == "vmware_log" else "syslog", line.encode())
        for case in corpus_cases()
        for line in case.lines
    ]
    for each in detectors():
        for path in sorted(each.folder.glob("*/*/*.log")):
            is_vm = path.name == "vm.log" or (path.name == "input.log" and each.owner == "vm")
            source = "vmware_log" if is_vm else "syslog"
            found += [(source, line) for line in path.read_bytes().split(b"\n") if line]
    return tuple(dict.fromkeys(found))


def mutants(seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield samples with some changes, endlessly: (`vmware_log` or `syslog`, line)."""
    chance = random.Random(seed)
    known = samples()
    while True:
        source, line = chance.choice(known)
        for _ in range(chance.randint(1, 4)):
            line = _changed(line, chance, known)
        yield source, line.replace(b"\n", b"\r")


def messages(seed: int) -> Iterator[bytes]:
    """Yield hostile messages endlessly: literals, dates and mutants in turn."""
    for literal, dated, (_, mutant) in zip(
        cycle(literal_lines()), cycle(dated_lines()), mutants(seed), strict=False
    ):
        yield from (literal, dated, mutant)


def _changed(  # noqa: PLR0911 - one return per kind of change
    line: bytes, chance: random.Random, known: tuple[tuple[str, bytes], ...]
) -> bytes:
    at = chance.randrange(len(line) + 1)
    words = line.split(b" ")
    place = chance.randrange(len(words))
    match chance.randrange(9):
        case 0:  # flip a bit
            if at == len(line):
                return line
            return line[:at] + bytes([line[at] ^ 1 << chance.randrange(8)]) + line[at + 1 :]
        case 1:
            return line[:at]
        case 2:  # repeat or remove a field
            return b" ".join(
                words[:place] + words[place:][:1] * chance.choice((0, 2, 300)) + words[place + 1 :]
            )
        case 3:
            return line[:at] + chance.choice(tuple(TAILS.values())) + line[at:]
        case 4:  # append a tail
            return line + chance.choice(tuple(TAILS.values()))
        case 5:
            return _with_number(line, chance)
        case 6:  # continue with the end of another line
            other = chance.choice(known)[1]
            return line[:at] + other[chance.randrange(len(other) + 1) :]
        case 7:
            return (
                line[:at] + bytes([chance.randrange(256)]) * chance.choice((1, 2, 4000)) + line[at:]
            )
        case _:
            year = b"%04d" % chance.randint(1970, 2199)
            return year + line[4:] if line[:2] == b"20" else line.replace(b"2024", year)


def _with_number(line: bytes, chance: random.Random) -> bytes:
    """Replace one run of digits by another number."""
    digits = [at for at in range(len(line)) if line[at : at + 1].isdigit()]
    if not digits:
        return line
    start = end = chance.choice(digits)
    while line[start - 1 : start].isdigit():
        start -= 1
    while line[end : end + 1].isdigit():
        end += 1
    return line[:start] + chance.choice(NUMBERS) + line[end:]
