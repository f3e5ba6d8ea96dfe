"""Reads infra/alerts/alerts.yaml: receivers, their filters, and quiet hours."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, time
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    StrictBool,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from stunwatch.errors import UserError
from stunwatch.settings import Settings

Severity = Literal["notice", "warning", "critical"]
Scope = Literal["vm", "device", "host", "array", "fabric", "array_or_fabric"]
Change = Literal["opened", "worse", "closed", "withdrawn"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the lowest to the highest."""

SCOPES: tuple[Scope, ...] = get_args(Scope)
CHANGES: tuple[Change, ...] = get_args(Change)

_VARIABLE = re.compile(r"\$\{(\w+)\}")

_PROBLEMS = {
    "missing": "is missing",
    "model_type": "must be a mapping of names to values",
    "string_pattern_mismatch": "must be one word",
    "time_parsing": 'must be a time like "22:00"',
    "tuple_type": "must be a list",
    "zoneinfo_str": "unknown time zone; an example is Europe/Vienna",
}
"""A type of error of pydantic → its text here. The texts of other types are pydantic's own."""


def _as_text(given: Any) -> str:
    # YAML reads 22:00 without quotes as the number 22 x 60. Pydantic would read seconds.
    if isinstance(given, int) and 0 <= given < 24 * 60:
        return f"{given // 60:02}:{given % 60:02}"
    return str(given)


def _without_zone(given: time) -> time:
    if given.tzinfo is not None:
        raise ValueError("must have no zone; quiet_hours.zone sets it")
    return given


TimeOfDay = Annotated[time, BeforeValidator(_as_text), AfterValidator(_without_zone)]


class _Part(BaseModel):
    """A part of the file. It rejects unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class QuietHours(_Part):
    """From `start` to `end` every day, in local time of a zone. `end` may be after midnight."""

    start: TimeOfDay = Field(alias="from")
    end: TimeOfDay = Field(alias="to")
    zone: ZoneInfo = ZoneInfo("UTC")
    hold: tuple[Literal["notice", "warning"], ...] = ("notice",)

    def hold_back(self, severity: str, now: datetime) -> bool:
        """True if a message of this severity waits for the end of the quiet hours."""
        return severity in self.hold and self.contains(now)

    def contains(self, now: datetime) -> bool:
        """True if `now` is in the quiet hours."""
        local = now.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= local < self.end
        return local >= self.start or local < self.end


class Receiver(_Part):
    """A receiver and its filters."""

    name: str = Field(pattern=r"^\w[\w.-]*$")
    url: str = Field(repr=False)
    """Contains secrets and is never shown. The file may give `url_file` instead, a path."""
    kind: Literal["apprise", "alertmanager"] = "apprise"
    severities: tuple[Severity, ...] = SEVERITIES[1:]
    scopes: tuple[Scope, ...] = SCOPES
    changes: tuple[Change, ...] = CHANGES
    is_quiet_at_night: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _with_url(cls, given: Any, info: ValidationInfo) -> Any:
        """Read the URL from its file, or fill in the variables of the environment."""
        if not isinstance(given, dict):
            return given
        if ("url" in given) == ("url_file" in given):
            raise ValueError("needs either url or url_file")
        if "url_file" in given:
            try:
                url = Path(str(given["url_file"])).read_text().strip()
            except OSError as error:
                raise ValueError(f"cannot read url_file ({error.strerror})") from error
        else:
            environment = os.environ if info.context is None else info.context
            url = _filled_in(str(given["url"]), environment)
        if "://" not in url:
            raise ValueError("url is not a URL: it contains no ://")
        return {name: value for name, value in given.items() if name != "url_file"} | {"url": url}

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "alertmanager":
            if self.is_quiet_at_night:
                raise ValueError("set quiet hours in Alertmanager instead")
            if urlsplit(self.url).scheme not in ("http", "https"):
                raise ValueError("url must begin with http:// or https://")
        return self

    def takes(self, severity: str, scope: str) -> bool:
        """True if the receiver accepts incidents of this severity and scope."""
        return severity in self.severities and scope in self.scopes

    @property
    def shown_url(self) -> str:
        """The URL without secrets: only its scheme."""
        return f"{urlsplit(self.url).scheme}://…"


def _filled_in(url: str, environment: Mapping[str, str]) -> str:
    for variable in _VARIABLE.findall(url):
        if not environment.get(variable):
            raise ValueError(f"url needs {variable}, which the environment does not set")
    return _VARIABLE.sub(lambda found: environment[found[1]], url)


class Retry(_Part):
    """Pauses after failed deliveries, from the first to the longest."""

    first_seconds: PositiveFloat = 1.0
    longest_seconds: PositiveFloat = 300.0


class Configuration(_Part):
    """The whole file. Without receivers there are no alerts."""

    receivers: tuple[Receiver, ...] = ()
    quiet_hours: QuietHours | None = None
    report_url: str = ""
    retry: Retry = Retry()

    @model_validator(mode="before")
    @classmethod
    def _without_empty_parts(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: part for name, part in given.items() if part is not None}

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [each.name for each in self.receivers]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two receivers have the name {twice}")
        return self


_PARTS: dict[int | str, type[_Part]] = {
    "receivers": Receiver,
    "quiet_hours": QuietHours,
    "retry": Retry,
}


def is_configured(settings: Settings) -> bool:
    """True if the file has content, so that the service must run."""
    try:
        text = yaml.safe_load(settings.alerts.read_text())
    except (OSError, yaml.YAMLError):
        # The service reports a file that cannot be read.
        return settings.alerts.exists()
    return bool(text)


def load(settings: Settings, environment: Mapping[str, str] | None = None) -> Configuration:
    """Read the file. Raises UserError with the problem."""
    path = settings.alerts
    try:
        text = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return Configuration()
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"Cannot read {path}: {' '.join(str(error).split())}.") from error
    try:
        return parse(text, os.environ if environment is None else environment)
    except ValueError as error:
        raise UserError(f"{path}: {error}.") from error


def parse(text: Any, environment: Mapping[str, str]) -> Configuration:
    """Validate the parsed YAML. Raises ValueError with a sentence without full stop."""
    try:
        return Configuration.model_validate(text or {}, context=dict(environment))
    except ValidationError as error:
        raise ValueError(_first_problem(error, text)) from None


def _first_problem(error: ValidationError, text: Any) -> str:
    """Return the place and the problem. The given value is left out: it may contain a secret."""
    first = error.errors(include_url=False, include_input=False)[0]
    place, part = [], text
    for step in first["loc"]:
        try:
            part = part[step]
        except (LookupError, TypeError):
            part = None
        # A receiver is shown with its name, which is easier to find than its number.
        name = part.get("name") if isinstance(part, dict) and isinstance(step, int) else None
        place.append(name if isinstance(name, str) and name.isprintable() and name else str(step))
    problem = _PROBLEMS.get(first["type"], first["msg"])
    if first["type"] == "extra_forbidden":
        problem = f"unknown name; allowed: {', '.join(_allowed(first['loc']))}"
    problem = problem.removeprefix("Value error, ").replace("Input should be", "must be")
    return ": ".join(filter(None, [".".join(place), problem]))


def _allowed(place: Sequence[int | str]) -> list[str]:
    """Return the names that the part of the file may contain in which a name is unknown."""
    part = _PARTS[place[0]] if len(place) > 1 else Configuration
    names = [field.alias or name for name, field in part.model_fields.items()]
    return [*names, "url_file"] if part is Receiver else names
