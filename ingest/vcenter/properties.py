"""Reads properties of many objects in few calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyVmomi import vim, vmodl

from stunwatch.ingest.vcenter.session import Session

AT_ONCE: Final = 200
"""Objects per answer."""

Properties = dict[str, Any]
"""Values by path (`config.network.dnsConfig`). Properties that are unset or not permitted are
left out."""


def read_all(
    session: Session, kind: type, paths: Iterable[str], at_once: int = AT_ONCE
) -> Iterator[tuple[str, Properties]]:
    """Yield (managed-object id, properties) of every object of a type (vim.HostSystem, …).

    `at_once` is the number of objects per answer: use fewer if each has much data.
    """
    content = session.content
    view = content.viewManager.CreateContainerView(content.rootFolder, [kind], True)
    try:
        everything = vmodl.query.PropertyCollector.ObjectSpec(
            obj=view,
            skip=True,
            selectSet=[
                vmodl.query.PropertyCollector.TraversalSpec(
                    name="view", type=vim.view.ContainerView, path="view", skip=False
                )
            ],
        )
        yield from _read(session, kind, paths, [everything], at_once)
    finally:
        view.DestroyView()


def read_some(
    session: Session, kind: type, paths: Iterable[str], moids: Iterable[str]
) -> dict[str, Properties]:
    """Return the properties of these objects by managed-object id. Deleted objects are left out."""
    found: dict[str, Properties] = {}
    for moid in moids:
        named = [vmodl.query.PropertyCollector.ObjectSpec(obj=kind(moid))]
        try:
            found |= dict(_read(session, kind, paths, named, AT_ONCE))
        except vmodl.fault.ManagedObjectNotFound:
            continue
    return found


def _read(
    session: Session, kind: type, paths: Iterable[str], objects: list[Any], at_once: int
) -> Iterator[tuple[str, Properties]]:
    collector = session.content.propertyCollector
    wanted = vmodl.query.PropertyCollector.FilterSpec(
        objectSet=objects,
        propSet=[vmodl.query.PropertyCollector.PropertySpec(type=kind, pathSet=list(paths))],
    )
    options = vmodl.query.PropertyCollector.RetrieveOptions(maxObjects=at_once)
    page = collector.RetrievePropertiesEx([wanted], options)
    while page is not None:
        for each in page.objects:
            yield each.obj._moId, {one.name: one.val for one in each.propSet}
        page = collector.ContinueRetrievePropertiesEx(page.token) if page.token else None
