"""The kept revisions of an object, with their data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from controller.apimachinery.custom_object import dig, mapping
from controller.command.rollout.errors import RolloutError
from controller.kube.errors import Forbidden
from controller.kube.resources import CONTROLLER_REVISIONS
from controller.ray.pods.hashes.template_hash import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.command.rollout.workload import Workload
    from controller.kube.client import Client

Json = dict[str, Any]


class TemplateRevision(msgspec.Struct, frozen=True, rename="camel"):
    """One revision.

    Attributes:
        revision: its number.
        name: name of the ControllerRevision.
        created: when it was first seen, RFC 3339.
        current: whether the object has its templates now.
        images: the images of Ray, each once.
        change_cause: the annotation `kubernetes.io/change-cause`; may be empty.
        templates: what it brings back.
    """

    revision: int
    name: str
    created: str
    current: bool
    images: tuple[str, ...]
    change_cause: str
    templates: Json


async def revisions_of(client: Client, workload: Workload, obj: Json) -> list[TemplateRevision]:
    """Return all revisions, by number.

    Raises:
        RolloutError: they may not be read.
    """
    path = CONTROLLER_REVISIONS.path(workload.namespace)
    try:
        listed = await client.request_json("GET", path)
    except Forbidden as error:
        raise RolloutError(
            f"the history may not be read: {error}; ask for the right to list controllerrevisions"
        ) from error
    uid = obj["metadata"]["uid"]
    owned = [each for each in listed.get("items") or () if _owner(each) == uid]
    present = workload.kind.templates_of(obj)
    found = [_revision(workload, each, present) for each in owned]
    return sorted(found, key=lambda each: (each.revision, each.name))


def choose(
    revisions: Sequence[TemplateRevision], number: int, workload: Workload
) -> TemplateRevision:
    """Return the revision of a number; with 0 the newest one that is not the present one.

    Raises:
        RolloutError: there is none.
    """
    if not revisions:
        raise RolloutError(
            f"{workload} has no history; it begins when the operator sees the strategy "
            "RollingUpdate, and needs the right to create controllerrevisions"
        )
    if number:
        found = [each for each in revisions if each.revision == number]
        numbers = ", ".join(str(each.revision) for each in revisions)
        missing = f"{workload} has no revision {number}; there are {numbers}"
    else:
        found = [each for each in revisions if not each.current]
        missing = (
            f"{workload} has only one revision, the present one, so there is nothing to undo; "
            "apply an earlier manifest instead"
        )
    if not found:
        raise RolloutError(missing)
    return found[-1]


def _owner(revision: Json) -> str:
    owners: list[Json] = revision["metadata"].get("ownerReferences") or []
    return next((each.get("uid", "") for each in owners if each.get("controller")), "")


def _revision(workload: Workload, raw: Json, present: Json) -> TemplateRevision:
    meta, templates = raw["metadata"], mapping(dig(raw, "data", "spec"))
    cause = mapping(meta.get("annotations")).get("kubernetes.io/change-cause", "")
    return TemplateRevision(
        raw.get("revision", 0),
        meta["name"],
        meta.get("creationTimestamp", ""),
        digest(templates) == digest(present),
        tuple(workload.kind.images_of(templates)),
        cause,
        templates,
    )
