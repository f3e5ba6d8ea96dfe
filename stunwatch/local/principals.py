"""Creates Kafka's users and permissions from the password files and acls.yaml.

The passwords of admin and ClickHouse are in files that Kafka reads. Kafka stores all others itself:
admin creates them after the start, and until then Kafka rejects these users.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from stunwatch import access
from stunwatch.access import IN_ITS_FILES, PRINCIPALS
from stunwatch.definitions import events
from stunwatch.errors import UserError
from stunwatch.ingest import yaml_file
from stunwatch.local import checks
from stunwatch.local.passwords import made_once
from stunwatch.settings import ROOT, Settings

ACLS = ROOT / "infra" / "kafka" / "acls.yaml"
MAKE_CERTIFICATES = ROOT / "infra" / "tls" / "make_certificates"
ITERATIONS = 8192
TIMEOUT_SECONDS = 10.0

Right = tuple[str, str, bool, str, str]
"""Resource type, resource name, whether the name is a prefix, principal, operation."""


def make_what_is_missing(settings: Settings) -> None:
    """Generate passwords and certificates once. Raises UserError if openssl fails or is missing."""
    for each in PRINCIPALS:
        made_once(access.password_file(settings, each))
    checks.require_tool("openssl")
    words = [str(MAKE_CERTIFICATES), str(settings.certificates)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UserError(f"openssl could not create certificates: {said[-1]}.")


def forget_what_is_told(settings: Settings) -> None:
    """Forget which passwords were set, because a new storage has no users."""
    _told(settings).unlink(missing_ok=True)


def apply(settings: Settings, admin: Any) -> None:
    """Set all passwords, and exactly the permissions that `rights` returns.

    `admin` is an AdminClient. Raises UserError if Kafka rejects a permission.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415 (slow to import)

    try:
        _apply_passwords(settings, admin)
        _apply_rights(admin)
    except KafkaException as error:
        raise UserError(
            f"Kafka refused a permission: {error.args[0].str()}."
            " Correct it in infra/kafka/acls.yaml or schemas."
        ) from error


def granted() -> dict[str, list[dict[str, Any]]]:
    """Return {principal: its permissions}: those of acls.yaml, and of the topics of events."""
    found: dict[str, list[dict[str, Any]]] = yaml_file.read(ACLS)
    for topic, event in events().items():
        for right, principals in (("read", event.read_by), ("write", event.written_by)):
            for each in principals:
                found[each].append({"may": [right], "topics": [topic]})
    return found


def rights() -> set[Right]:
    """Return all permissions, of acls.yaml and of schemas/."""
    wanted: set[Right] = set()
    for principal, given in granted().items():
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
    """Return a resource name and whether it is a prefix. `*` alone is Kafka's own wildcard."""
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
    """Record that the current passwords of these principals are set in Kafka."""
    known = _known(settings) | {each: _digest(settings, each) for each in principals}
    draft = _told(settings).with_suffix(".partial")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(known))
    draft.rename(_told(settings))


def _told(settings: Settings) -> Path:
    """Return the file of passwords set in Kafka: {principal: digest of its password}."""
    return settings.home / "kafka_told.json"


def _known(settings: Settings) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(_told(settings).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return known


def _digest(settings: Settings, principal: str) -> str:
    """Return a digest of a password. It reveals nothing, because passwords are long and random."""
    return hashlib.sha256(access.password(settings, principal).encode()).hexdigest()
