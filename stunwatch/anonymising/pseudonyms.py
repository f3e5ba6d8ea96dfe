"""Keyed pseudonyms: equal texts get equal pseudonyms, which cannot be computed without the key.

A pseudonym keeps the format that parsers and detectors need, and nothing else of the text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv6Address, ip_address

KEY_BYTES = 32
# No vowels: a pseudonym must not be a word or consist of hexadecimal digits only.
_ALPHABET = "bcdfghjkmnpqrstvwxyz23456789"
_LETTERS = 20
_ROUNDS = 6
_LONGEST_PERMUTED = 128
_WORDS_KEPT = 200_000
_SHORTEST_SHIFT_WEEKS, _SHIFTS_WEEKS = 52, 468
# 240.0.0.0/4 is not assigned. The ranges for documentation have only 768 addresses, so that two
# addresses of a fleet would soon get the same one.
_IPV4_FIRST, _IPV4_BITS = 240 << 24, 28
_IPV6_FIRST, _IPV6_BITS = int(IPv6Address("2001:db8::")), 96
_IPV4_KEPT = re.compile(r"0\.0\.0\.0|127\..*|255\..*")
_LINK_LOCAL = "169.254."
# From the first letter or digit to the last.
_CORE = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff](?:.*[A-Za-z0-9_\u0080-\U0010ffff])?", re.DOTALL)
_RUN = re.compile(r"[^\s()\[\]{}<>'\"]+")
_COPY_NUMBER = re.compile(r"\d{1,2}")
# naa.6: vendor (6 digits), vendor-specific digits, mostly the array's serial number (9), and the
# LUN (16). naa.5 and others: vendor, and the rest.
_NAA_COMPANY, _NAA_ARRAY, _NAA_WHOLE = 7, 16, 32
_VML_HEAD = 10  # vml.0200040000


class Pseudonyms:
    """Pseudonyms of one key. `counts` is the number of texts that got one, by kind."""

    def __init__(self, key: bytes) -> None:
        """`key` has at most 64 bytes."""
        self._key = key
        self._words: dict[tuple[str, str], str] = {}
        self.counts: Counter[str] = Counter()
        self.made: dict[tuple[str, str], str] | None = None
        """If it is a dictionary, every pseudonym is added to it by kind and original text."""

    @property
    def shift(self) -> timedelta:
        """Return how far times are moved back: one to ten years, in whole weeks.

        Whole weeks keep the hour of the week, which distinguishes backups from other stuns.
        """
        weeks = _SHORTEST_SHIFT_WEEKS + self._number("shift", "") % _SHIFTS_WEEKS
        return timedelta(weeks=weeks)

    def word(self, text: str) -> str:
        """Return a word's pseudonym. Case is ignored except for that of the first letter."""
        lower = text.lower()
        made = self._known("word", lower, lambda: "x" + self._letters("word", lower, 8))
        return "X" + made[1:] if text[0].isupper() else made

    def name(self, kind: str, text: str) -> str:
        """Return a name's pseudonym. It starts with `kind`: `host-kq3f7mzp`. Case is ignored.

        The labels of a host's name are replaced one by one, so that its short and full names still
        match. Other names keep blanks, brackets and the number of a copy: `Gold (1)` →
        `ds-kq3f7mzp (1)`.
        """
        match = _CORE.search(text)
        if match is None:
            return text
        core = match[0]
        if kind == "host":
            made = self._host(core)
        elif kind == "word":
            made = self.word(core)
        else:
            lower = core.lower()
            made = self._known(kind, lower, lambda: self._name(kind, lower))
        return text[: match.start()] + made + text[match.end() :]

    def hexadecimal(self, text: str, kind: str = "hexadecimal") -> str:
        """Replace hexadecimal digits. Different digits of equal length give different results.

        A text with a letter never becomes a decimal number. Other characters (`-`, `:`, blanks) are
        kept. Texts with the same digits get the same digits.
        """
        return self._known(kind, text, lambda: self._hexadecimal(text, ""))

    def decimal(self, text: str) -> str:
        """Return another decimal number with as many digits."""
        number = self._number("decimal", text) % 10 ** min(len(text), _LONGEST_PERMUTED)
        return self._known("number", text, lambda: f"{number:0{len(text)}d}")

    def address(self, text: str) -> str:
        """Return another IP address; special ones are kept. Raises ValueError if it is not one."""
        address = ip_address(text)
        if address.version == 6:
            if address.is_loopback or address.is_unspecified:
                return text
            return self._known("address", address.exploded, lambda: self._ipv6(address.exploded))
        if _IPV4_KEPT.fullmatch(text):
            return text
        return self._known("address", str(address), lambda: self._ipv4(str(address)))

    def device(self, text: str) -> str:
        """Return a LUN identifier of the same form: `naa.`, `eui.`, `uuid.`, `vml.`, `t10.`.

        The vendor digits of a naa are kept, because recommendations depend on them. LUNs of one
        array still share its digits, and a vml still contains its naa.
        """
        return self._known("device", text, lambda: self._device(text))

    def _device(self, text: str) -> str:
        kind, _, rest = text.partition(".")
        match kind.lower():
            case "naa":
                made = self._naa(rest)
            case "vml":
                made = rest[:_VML_HEAD] + self._naa(rest[_VML_HEAD:])
            case "eui" | "uuid":
                made = self._hexadecimal(rest, "")
            case _:
                made = self._word_of("device", rest)
        return f"{kind}.{made}"

    def _naa(self, digits: str) -> str:
        whole, model = digits[:_NAA_WHOLE], digits[_NAA_WHOLE:]
        if len(whole) < _NAA_ARRAY:
            return self._hexadecimal(digits, "naa")
        company, array = whole[:_NAA_COMPANY], whole[_NAA_COMPANY:_NAA_ARRAY]
        made = company + self._hexadecimal(array, company.lower())
        made += self._hexadecimal(whole[_NAA_ARRAY:], (company + array).lower())
        return made + self._hexadecimal(model, "model")

    def _hexadecimal(self, text: str, tweak: str) -> str:
        digits = re.sub(r"[^0-9A-Fa-f]", "", text)
        if not digits:
            return text
        made = self._mixed(digits.lower(), tweak)
        if digits != digits.lower():
            made = made.upper()
        rest = iter(made)
        return "".join(next(rest) if each.isalnum() else each for each in text)

    def _host(self, text: str) -> str:
        try:
            return self.address(text)
        except ValueError:
            pass
        label, dot, domain = text.lower().partition(".")
        made = self._known("host", label, lambda: self._word_of("host", label))
        labels = [self.word(each) if each else "" for each in domain.split(".")] if dot else []
        return ".".join([made, *labels])

    def _name(self, kind: str, text: str) -> str:
        is_first = True

        def run(match: re.Match[str]) -> str:
            nonlocal is_first
            if is_first:
                is_first = False
                return self._word_of(kind, text)
            before = text[match.start() - 1]
            if before == "(" and _COPY_NUMBER.fullmatch(match[0]):
                return match[0]
            return "x" + self._letters("part", match[0], 5)

        return _RUN.sub(run, text)

    def _word_of(self, kind: str, text: str) -> str:
        return f"{kind}-{self._letters(kind, text, 8)}"

    def _ipv4(self, text: str) -> str:
        if text.startswith(_LINK_LOCAL):
            number = self._number("ipv4", text) % (1 << 16)
            return f"{_LINK_LOCAL}{number >> 8}.{number & 255}"
        return str(ip_address(_IPV4_FIRST + self._number("ipv4", text) % ((1 << _IPV4_BITS) - 1)))

    def _ipv6(self, text: str) -> str:
        return str(IPv6Address(_IPV6_FIRST + self._number("ipv6", text) % (1 << _IPV6_BITS)))

    def _mixed(self, digits: str, tweak: str) -> str:
        """Permute all numbers of this length: Feistel rounds, repeated if the result is decimal.

        Of a text that is longer than any identifier, only the length is kept.
        """
        if len(digits) > _LONGEST_PERMUTED:
            made = f"{self._number(tweak, digits):0128x}"
            return (made * (len(digits) // len(made) + 1))[: len(digits)]
        made = digits
        while True:
            made = self._permuted(made, tweak)
            if digits.isdigit() or not made.isdigit():
                return made

    def _permuted(self, digits: str, tweak: str) -> str:
        bits = 4 * len(digits)
        right_bits = bits // 2
        left_bits = bits - right_bits
        value = int(digits, 16)
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        for number in range(_ROUNDS):
            place = f"{tweak}/{len(digits)}/{number}"
            if number % 2:
                right ^= self._number(place, f"{left:x}") & ((1 << right_bits) - 1)
            else:
                left ^= self._number(place, f"{right:x}") & ((1 << left_bits) - 1)
        return f"{left << right_bits | right:0{len(digits)}x}"

    def _letters(self, kind: str, text: str, count: int) -> str:
        """Return letters and digits. The first is a letter, so that a name is never a number."""
        number = self._number(kind, text)
        number, first = divmod(number, _LETTERS)
        made = [_ALPHABET[first]]
        for _ in range(count - 1):
            number, at = divmod(number, len(_ALPHABET))
            made.append(_ALPHABET[at])
        return "".join(made)

    def _number(self, kind: str, text: str) -> int:
        data = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, key=self._key, digest_size=64).digest())

    def _known(self, kind: str, text: str, make: Callable[[], str]) -> str:
        known = self._words.get((kind, text))
        if known is None:
            if len(self._words) >= _WORDS_KEPT:
                self._words.clear()  # limits memory; the same text gets the same pseudonym again
            known = self._words[kind, text] = make()
            self.counts[kind] += 1
            if self.made is not None:
                self.made[kind, text] = known
        return known
