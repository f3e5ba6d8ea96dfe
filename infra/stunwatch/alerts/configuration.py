"""infra/alerts/alerts.yaml: who is told of what, and when not."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from stunwatch.errors import UserError
from stunwatch.settings import Settings

SEVERITIES = ("notice", "warning", "critical")
"""In rising order."""

SCOPES = ("vm", "device", "host", "array", "fabric", "array_or_fabric")
CHANGES = ("opened", "worse", "closed", "withdrawn")
KINDS = ("apprise", "alertmanager")

_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class QuietHours:
    """From `start` to `end` of every day, which may lie past midnight, in a zone's local time."""

    start: time
    end: time
    zone: ZoneInfo
    hold: tuple[str, ...] = ("notice",)

    def hold_back(self, severity: str, now: datetime) -> bool:
        """Whether something of this severity waits for their end."""
        return severity in self.hold and self.contains(now)

    def contains(self, now: datetime) -> bool:
        """Whether it is quiet now."""
        local = now.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= local < self.end
        return local >= self.start or local < self.end


@dataclass(frozen=True)
class Receiver:
    """Who is told, and of what."""

    name: str
    url: str = field(repr=False)
    """With its secrets: never shown."""
    kind: str = "apprise"
    severities: tuple[str, ...] = SEVERITIES[1:]
    scopes: tuple[str, ...] = SCOPES
    changes: tuple[str, ...] = CHANGES
    is_quiet_at_night: bool = False

    def takes(self, severity: str, scope: str) -> bool:
        """Whether such an incident is its concern."""
        return severity in self.severities and scope in self.scopes

    @property
    def shown_url(self) -> str:
        """What of the url may be shown: its scheme."""
        return f"{urlsplit(self.url).scheme}://…"


@dataclass(frozen=True)
class Configuration:
    """The whole file. Without receivers there is nothing to do."""

    receivers: tuple[Receiver, ...] = ()
    quiet_hours: QuietHours | None = None
    report_url: str = ""
    first_retry_s: float = 1.0
    longest_retry_s: float = 300.0


def is_configured(settings: Settings) -> bool:
    """Whether the file names anybody: whether the service is wanted."""
    try:
        text = yaml.safe_load(settings.alerts.read_text())
    except (OSError, yaml.YAMLError):
        # A file that cannot be read must be complained about, by the service.
        return settings.alerts.exists()
    return bool(text)


def load(settings: Settings, environment: Mapping[str, str] | None = None) -> Configuration:
    """Read the file. Raises UserError with what is wrong in it."""
    path = settings.alerts
    try:
        text = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return Configuration()
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    try:
        return parse(text, os.environ if environment is None else environment)
    except ValueError as error:
        raise UserError(f"{path}: {error}.") from error


def parse(text: Any, environment: Mapping[str, str]) -> Configuration:
    """What the file says. Raises ValueError with a sentence without its full stop."""
    top = _mapping("the file", text or {}, ("receivers", "quiet_hours", "report_url", "retry"))
    receivers = tuple(
        _receiver(each, environment) for each in _list("receivers", top.get("receivers"))
    )
    names = [each.name for each in receivers]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two receivers are named {twice}")
    retry = _mapping("retry", top.get("retry") or {}, ("first_seconds", "longest_seconds"))
    first, longest = (
        _positive(f"retry.{name}", retry.get(name, default))
        for name, default in (("first_seconds", 1.0), ("longest_seconds", 300.0))
    )
    quiet = top.get("quiet_hours")
    return Configuration(
        receivers=receivers,
        quiet_hours=_quiet_hours(quiet) if quiet else None,
        report_url=str(top.get("report_url") or ""),
        first_retry_s=first,
        longest_retry_s=longest,
    )


def _receiver(text: Any, environment: Mapping[str, str]) -> Receiver:
    known = {each.name for each in fields(Receiver)} | {"url_file"}
    given = _mapping("a receiver", text, tuple(sorted(known)))
    name = given.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"a receiver's name must be one word, not {name!r}")
    kind = given.get("kind", "apprise")
    if kind not in KINDS:
        raise ValueError(f"{name}.kind is {kind!r}, not one of: {', '.join(KINDS)}")
    is_quiet = given.get("is_quiet_at_night", False)
    if not isinstance(is_quiet, bool):
        raise ValueError(f"{name}.is_quiet_at_night must be true or false")
    if is_quiet and kind == "alertmanager":
        raise ValueError(f"{name}: quiet hours are Alertmanager's own to keep")
    url = _url(name, given, environment)
    if kind == "alertmanager" and urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{name}.url must begin with http:// or https://")
    return Receiver(
        name=name,
        url=url,
        kind=kind,
        severities=_words(f"{name}.severities", given, "severities", SEVERITIES, SEVERITIES[1:]),
        scopes=_words(f"{name}.scopes", given, "scopes", SCOPES, SCOPES),
        changes=_words(f"{name}.changes", given, "changes", CHANGES, CHANGES),
        is_quiet_at_night=is_quiet,
    )


def _url(name: str, given: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """The receiver's url with its secrets filled in."""
    if ("url" in given) == ("url_file" in given):
        raise ValueError(f"{name} needs either url or url_file")
    if "url_file" in given:
        try:
            url = Path(str(given["url_file"])).read_text().strip()
        except OSError as error:
            raise ValueError(f"{name}.url_file cannot be read ({error.strerror})") from error
    else:
        url = str(given["url"])
        for variable in _VARIABLE.findall(url):
            if not environment.get(variable):
                raise ValueError(f"{name}.url needs {variable}, which the environment lacks")
        url = _VARIABLE.sub(lambda found: environment[found[1]], url)
    if "://" not in url:
        raise ValueError(f"{name}'s url is none: it has no ://")
    return url


def _quiet_hours(text: Any) -> QuietHours:
    given = _mapping("quiet_hours", text, ("from", "to", "zone", "hold"))
    name = str(given.get("zone", "UTC"))
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"there is no time zone {name!r}; Europe/Vienna is one") from error
    return QuietHours(
        _time("quiet_hours.from", given.get("from")),
        _time("quiet_hours.to", given.get("to")),
        zone,
        _words("quiet_hours.hold", given, "hold", ("notice", "warning"), ("notice",)),
    )


def _time(name: str, text: Any) -> time:
    # 22:00 without quotes is a number to YAML: sixty times twenty-two.
    if isinstance(text, int) and 0 <= text < 24 * 60:
        return time(text // 60, text % 60)
    try:
        return time.fromisoformat(str(text))
    except ValueError as error:
        raise ValueError(f'{name} must be a time like "22:00", not {text!r}') from error


def _mapping(name: str, text: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(text, dict):
        raise ValueError(f"{name} must hold names and values")
    if unknown := sorted(str(each) for each in set(text) - set(known)):
        raise ValueError(f"{name} has {unknown[0]!r}, which is not one of: {', '.join(known)}")
    return text


def _list(name: str, text: Any) -> list[Any]:
    if text is None:
        return []
    if not isinstance(text, list):
        raise ValueError(f"{name} must be a list")
    return text


def _words(
    name: str,
    given: Mapping[str, Any],
    key: str,
    known: tuple[str, ...],
    default: tuple[str, ...],
) -> tuple[str, ...]:
    """A list of known words, or the default."""
    if key not in given:
        return default
    words = tuple(str(each) for each in _list(name, given[key]))
    if unknown := [each for each in words if each not in known]:
        raise ValueError(f"{name} has {unknown[0]!r}, which is not one of: {', '.join(known)}")
    return words


def _positive(name: str, text: Any) -> float:
    if not isinstance(text, int | float) or isinstance(text, bool) or text <= 0:
        raise ValueError(f"{name} must be a number above 0")
    return float(text)
