"""The object of a rollout command, `raycluster/NAME`, and its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO

import msgspec

from controller.apimachinery.custom_object import dig, mapping
from controller.command.connection import CommandFailed
from controller.command.output import CommandOutput
from controller.command.rollout_kinds import (
    RayClusterFleetRollout,
    RayClusterRollout,
    RolloutKind,
    images_of,
)
from controller.command.targets import parse_target
from controller.kube.client import Client
from controller.kube.errors import Conflict, Forbidden, NotFound
from controller.kube.resources import CONTROLLER_REVISIONS
from controller.ray.pods.hashes import digest

Json = dict[str, Any]


KINDS: Final[Mapping[str, RolloutKind]] = {
    each.resource.kind.lower(): each for each in (RayClusterRollout(), RayClusterFleetRollout())
}
"""Kinds by their names on the command line."""


class Workload(msgspec.Struct, frozen=True):
    """One object on the command line."""

    kind: RolloutKind
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `raycluster.ray.io/NAME`, as kubectl prints it."""
        resource = self.kind.resource
        return f"{resource.kind.lower()}.{resource.group}/{self.name}"

    @property
    def argument(self) -> str:
        """`raycluster/NAME`, with its namespace, as other commands take it."""
        return f"{self.kind.resource.kind.lower()}/{self.name} -n {self.namespace}"


def parse_workload(words: Sequence[str], namespace: str) -> Workload:
    """Read `TYPE/NAME` or `TYPE NAME`.

    Raises:
        ConfigurationError: it is something else, or there is no such type.
    """
    resource, name = parse_target(words, [kind.resource for kind in KINDS.values()], "rolled out")
    return Workload(KINDS[resource.kind.lower()], namespace, name)


# The kept revisions of an object, with their data.


class TemplateRevision(msgspec.Struct, frozen=True, rename="camel"):
    """One revision, with the name of its ControllerRevision and when it was first seen (RFC 3339).

    `current` is the one whose templates the object has now.
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
        CommandFailed: they may not be read.
    """
    path = CONTROLLER_REVISIONS.path(workload.namespace)
    try:
        listed = await client.request_json("GET", path)
    except Forbidden as error:
        raise CommandFailed(
            f"the history may not be read: {error}; ask for the right to list controllerrevisions"
        ) from error
    uid = obj["metadata"]["uid"]
    owned = [each for each in listed.get("items") or () if _owner(each) == uid]
    present = workload.kind.templates_of(obj)
    found = [_revision(each, present) for each in owned]
    return sorted(found, key=lambda each: (each.revision, each.name))


def choose(
    revisions: Sequence[TemplateRevision], number: int, workload: Workload
) -> TemplateRevision:
    """Return the revision of a number; with 0 the newest one that is not the present one.

    Raises:
        CommandFailed: there is none.
    """
    if not revisions:
        raise CommandFailed(_not_begun(workload))
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
        raise CommandFailed(missing)
    return found[-1]


def no_history(workload: Workload, obj: Json) -> str:
    """Return why an object has no revisions, and what to do."""
    try:
        workload.kind.is_paused(obj)  # refused without rolling updates
    except CommandFailed as error:
        return f"{workload} has no history: {error}"
    return _not_begun(workload)


def _not_begun(workload: Workload) -> str:
    return (
        f"{workload} has no history; it begins when the operator sees the strategy RollingUpdate, "
        "and needs the right to create controllerrevisions"
    )


def _owner(revision: Json) -> str:
    owners: list[Json] = revision["metadata"].get("ownerReferences") or []
    return next((each.get("uid", "") for each in owners if each.get("controller")), "")


def _revision(raw: Json, present: Json) -> TemplateRevision:
    meta, templates = raw["metadata"], mapping(dig(raw, "data", "spec"))
    cause = mapping(meta.get("annotations")).get("kubernetes.io/change-cause", "")
    return TemplateRevision(
        raw.get("revision", 0),
        meta["name"],
        meta.get("creationTimestamp", ""),
        digest(templates) == digest(present),
        images_of(templates),
        cause,
        templates,
    )


class Report(CommandOutput):
    """What a subcommand prints: lines about one object, or one JSON document that names it."""

    def __init__(self, workload: Workload, stream: TextIO, *, as_json: bool) -> None:
        super().__init__(stream, as_json=as_json)
        self._workload = workload

    def value(self, fields: dict[str, Any]) -> None:
        """Print the JSON document: these fields after those that identify the object."""
        workload = self._workload
        identity = {
            "kind": workload.kind.resource.kind,
            "namespace": workload.namespace,
            "object": workload.name,
        }
        self.document({**identity, **fields})

    def result(self, text: str, **fields: Any) -> None:
        """Report what was done, a predicate of the object."""
        self.value({"result": text, **fields})
        self.line(f"{self._workload} {text}")


# Changes an object under its resource version, and retries after a conflict.

_ATTEMPTS: Final = 5


async def read(client: Client, workload: Workload) -> Json:
    """Return the object as plain data.

    Raises:
        CommandFailed: it does not exist.
    """
    try:
        return await client.get_raw(workload.kind.resource, workload.namespace, workload.name)
    except NotFound:
        raise CommandFailed(
            f"{workload} does not exist in namespace {workload.namespace}; -n chooses another one"
        ) from None


async def change(client: Client, workload: Workload, edit: Callable[[Json], Json]) -> Json:
    """Replace the object by `edit` of it; returns what is stored.

    Raises:
        CommandFailed: it does not exist, or others change it all the time.
    """
    for _ in range(_ATTEMPTS):
        wanted = edit(await read(client, workload))
        try:
            await client.replace(workload.kind.resource, workload.namespace, workload.name, wanted)
        except Conflict:
            continue
        return await read(client, workload)
    raise CommandFailed(f"{workload} is being changed all the time; try again")
