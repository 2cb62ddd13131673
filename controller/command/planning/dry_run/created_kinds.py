"""The kinds that take part in the dry run of an object, found by following `Kind.creates`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.runtime.kind import Kind


def with_created_kinds(kind: Kind[Any], served: Iterable[Kind[Any]]) -> tuple[Kind[Any], ...]:
    """Return the kind, then the served kinds of all objects created for its objects, nearest first.

    A kind may create objects of several kinds, and several kinds may create objects of one.
    """
    by_primary = {each.primary: each for each in served}
    found = {kind.primary: kind}
    queue = [kind]
    for creator in queue:  # grows on the way
        for resource in creator.creates:
            created = by_primary.get(resource)
            if created is not None and resource not in found:
                found[resource] = created
                queue.append(created)
    return tuple(queue)
