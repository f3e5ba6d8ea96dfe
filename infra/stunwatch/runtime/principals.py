"""Kafka's users and their rights: made, and kept as the files of passwords and acls.yaml say.

Kafka knows admin and ClickHouse by the files of their passwords. All others it keeps itself: admin
tells it of them at the start, and until then they are refused.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from stunwatch import access
from stunwatch.access import IN_ITS_FILES, PRINCIPALS
from stunwatch.errors import UserError
from stunwatch.runtime import checks
from stunwatch.runtime.passwords import made_once
from stunwatch.settings import ROOT, Settings

ACLS = ROOT / "infra" / "kafka" / "acls.yaml"
MAKE_CERTIFICATES = ROOT / "infra" / "tls" / "make_certificates"
ITERATIONS = 8192
TIMEOUT_SECONDS = 10.0

Right = tuple[str, str, bool, str, str]
"""What kind of thing, its name, whether all that begin so, the principal, the operation."""


def make_what_is_missing(settings: Settings) -> None:
    """Make passwords and certificates, once. Raises UserError where openssl fails or is missing."""
    for each in PRINCIPALS:
        made_once(access.password_file(settings, each))
    checks.require_tool("openssl")
    words = [str(MAKE_CERTIFICATES), str(settings.certificates)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UserError(f"openssl makes no certificates: {said[-1]}.")


def forget_what_is_told(settings: Settings) -> None:
    """A new storage knows nobody."""
    _told(settings).unlink(missing_ok=True)


def apply(settings: Settings, admin: Any) -> None:
    """Give everybody its present password and the rights of acls.yaml, and nobody any other.

    `admin` is an AdminClient. Raises UserError where Kafka refuses one.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415 (slow to import)

    try:
        _apply_passwords(settings, admin)
        _apply_rights(admin)
    except KafkaException as error:
        raise UserError(f"Kafka refused what acls.yaml says: {error.args[0].str()}.") from error


def rights() -> set[Right]:
    """Read acls.yaml."""
    wanted: set[Right] = set()
    for principal, given in yaml.safe_load(ACLS.read_text()).items():
        for each in given:
            for operation in each["may"]:
                wanted |= {
                    (kind, *_name(name), principal, operation) for kind, name in _things(each)
                }
    return wanted


def _things(given: dict[str, Any]) -> list[tuple[str, str]]:
    topics = [("topic", name) for name in given.get("topics", [])]
    groups = [("group", name) for name in given.get("groups", [])]
    return topics + groups + ([("broker", "kafka-cluster")] if given.get("cluster") else [])


def _name(name: str) -> tuple[str, bool]:
    """`*` alone is Kafka's own name for everything."""
    is_prefix = name.endswith("*") and name != "*"
    return name.removesuffix("*") if is_prefix else name, is_prefix


def _apply_passwords(settings: Settings, admin: Any) -> None:
    from confluent_kafka.admin import (  # noqa: PLC0415 (slow to import)
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    known = _known(settings)
    changed = [
        each
        for each in PRINCIPALS
        if each not in IN_ITS_FILES and known.get(each) != _digest(settings, each)
    ]
    information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    alterations = [
        UserScramCredentialUpsertion(each, information, access.password(settings, each).encode())
        for each in changed
    ]
    if alterations:
        _finish(admin.alter_user_scram_credentials(alterations))
        _note(settings, changed)


def _apply_rights(admin: Any) -> None:
    from confluent_kafka.admin import (  # noqa: PLC0415 (slow to import)
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    allow, literal, prefixed = (
        AclPermissionType.ALLOW,
        ResourcePatternType.LITERAL,
        ResourcePatternType.PREFIXED,
    )
    wanted = {
        AclBinding(
            ResourceType[kind.upper()],
            name,
            prefixed if is_prefix else literal,
            f"User:{principal}",
            "*",
            AclOperation[operation.upper()],
            allow,
        )
        for kind, name, is_prefix, principal, operation in rights()
    }
    anything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    present = set(admin.describe_acls(anything).result(timeout=TIMEOUT_SECONDS))
    if missing := wanted - present:
        _finish(admin.create_acls(list(missing)))
    if surplus := present - wanted:
        filters = [
            AclBindingFilter(
                each.restype,
                each.name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in surplus
        ]
        _finish(admin.delete_acls(filters))


def _finish(futures: dict[Any, Any]) -> None:
    for each in futures.values():
        each.result(timeout=TIMEOUT_SECONDS)


def _note(settings: Settings, principals: list[str]) -> None:
    """Remember that Kafka was told the present passwords of these."""
    known = _known(settings) | {each: _digest(settings, each) for each in principals}
    draft = _told(settings).with_suffix(".partial")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(known))
    draft.rename(_told(settings))


def _told(settings: Settings) -> Path:
    """What Kafka was told: {principal: digest of its password}."""
    return settings.home / "kafka_told.json"


def _known(settings: Settings) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(_told(settings).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return known


def _digest(settings: Settings, principal: str) -> str:
    """Tells passwords apart; they are random and long, so that it tells nothing else."""
    return hashlib.sha256(access.password(settings, principal).encode()).hexdigest()
