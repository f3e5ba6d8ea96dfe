"""Reads vSphere tags, which have their own interface (REST) and do not appear in updates."""

from __future__ import annotations

from typing import Final

from stunwatch.ingest.vcenter.session import TAGGING, Session

TAGS_AT_ONCE: Final = 200


def read_tags(session: Session) -> dict[str, frozenset[str]]:
    """Return the tags, `category/name`, of every object that has any, by managed-object id.

    Raises VCenterError or a subclass.
    """
    categories: dict[str, str] = {}
    names: dict[str, str] = {}
    for id in session.ask_rest("GET", f"{TAGGING}/tag"):
        tag = session.ask_rest("GET", f"{TAGGING}/tag/id:{id}")
        category = tag["category_id"]
        if category not in categories:
            told = session.ask_rest("GET", f"{TAGGING}/category/id:{category}")
            categories[category] = told["name"]
        names[id] = f"{categories[category]}/{tag['name']}"
    found: dict[str, set[str]] = {}
    ids = sorted(names)
    for first in range(0, len(ids), TAGS_AT_ONCE):
        for each in session.ask_rest(
            "POST",
            f"{TAGGING}/tag-association?~action=list-attached-objects-on-tags",
            {"tag_ids": ids[first : first + TAGS_AT_ONCE]},
        ):
            for tagged in each["object_ids"] or ():
                found.setdefault(tagged["id"], set()).add(names[each["tag_id"]])
    return {id: frozenset(tags) for id, tags in found.items()}
