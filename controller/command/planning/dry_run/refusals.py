"""Asks the API server about the planned writes: each is sent to it as a dry run.

Defaults, validation, quotas, limits and admission webhooks of the server all take part. A dry run
does not see the writes before it, so an object that an earlier write creates does not count as
missing.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.apimachinery.patches.merge_patch import apply_merge_patch
from controller.command.planning.object_plan import Refusal
from controller.kube.content_types import JSON, JSON_PATCH, MERGE_PATCH
from controller.kube.errors import Forbidden, StatusError
from controller.ray.api import labels
from controller.runtime.plan import Create, Delete, JsonPatch, MergePatch, Replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.command.planning.dry_run.dry_run import DryRun
    from controller.kube.client import Client
    from controller.kube.content_types import ContentType
    from controller.runtime.plan import Target, Write

Json = dict[str, Any]

_OWN_RIGHTS_MISSING = re.compile(r'User "[^"]*" cannot (\S+) resource "([^"]+)"')
_NO_DRY_RUN = "does not support dry run"
_OPERATOR = {"dryRun": "All", "fieldManager": "manta"}


@dataclass(frozen=True, slots=True)
class ServerAnswers:
    """The API server's answers to all planned writes.

    Attributes:
        refusals: what it would refuse; pods of one group that are refused alike count together.
        notes: sentences about what could not be asked.
    """

    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


async def ask_server(client: Client, dry_run: DryRun, new: Target | None) -> ServerAnswers:
    """Send all writes of a dry run to the API server, which stores none of them.

    Args:
        client: access to the server.
        dry_run: after everything has settled.
        new: the primary object, if the server does not have it yet and cannot judge changes of it.

    Raises:
        KubeError: the server could not be reached.
    """
    writes = [write for write in _askable(dry_run) if new is None or not _same(write.target, new)]
    answers = await asyncio.gather(*(_refusal_of(client, write) for write in writes))
    created = {write.target.name for write in writes if isinstance(write, Create)}
    refused: Counter[Refusal] = Counter()
    notes: dict[str, None] = {}
    for write, error in zip(writes, answers, strict=True):
        if error is None or _waits_for_another(error, created):
            continue
        if note := _unanswered(write, error):
            notes[note] = None
        else:
            refused[_refusal(write, error)] += 1
    return ServerAnswers(
        tuple(each.counted(count) for each, count in refused.items()), tuple(notes)
    )


def _same(target: Target, other: Target) -> bool:
    return (target.resource, target.key) == (other.resource, other.key)


def _askable(dry_run: DryRun) -> Iterable[Write]:
    """Yield creations, and changes and deletions of existing objects."""
    existing = {
        (str(resource), key) for resource, objects in dry_run.before.items() for key in objects
    }
    for write in dry_run.writes:
        if isinstance(write, Create) or (str(write.target.resource), write.target.key) in existing:
            yield write


async def _refusal_of(client: Client, write: Write) -> StatusError | None:
    method, body, content_type = _request(write)
    target = write.target
    name = "" if isinstance(write, Create) else target.name
    try:
        await client.request_json(
            method,
            target.resource.path(target.namespace, name, getattr(write, "subresource", "")),
            query=_OPERATOR,
            body=body,
            content_type=content_type,
        )
    except StatusError as error:
        return error
    return None


def _request(write: Write) -> tuple[str, Any, ContentType]:
    match write:
        case Create():
            secret = write.secret
            body = write.body if secret is None else apply_merge_patch(write.body, secret())
            return "POST", body, JSON
        case Delete():
            options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
            return "DELETE", options, JSON
        case MergePatch():
            return "PATCH", write.patch, MERGE_PATCH
        case Replace():
            return "PATCH", write.merge, MERGE_PATCH
        case JsonPatch():
            return "PATCH", list(write.operations), JSON_PATCH


def _waits_for_another(error: StatusError, created: set[str]) -> bool:
    """Return whether the server misses what another write creates, such as a service account."""
    text = str(error)
    return "not found" in text and any(f'"{name}"' in text for name in created)


def _unanswered(write: Write, error: StatusError) -> str:
    """Return the reason why this says nothing about the operator's write; empty if it does."""
    own = _OWN_RIGHTS_MISSING.search(str(error)) if isinstance(error, Forbidden) else None
    unknown = f"whether the API server would accept each {write.target.resource.kind} is not known"
    if own:
        return f"{unknown}: your account may not {own[1]} {own[2]}"
    if _NO_DRY_RUN in str(error):
        return f"{unknown}: {error}"
    return ""


def _refusal(write: Write, error: StatusError) -> Refusal:
    group = _group(write)
    name = write.target.name
    pattern = f"{name.rpartition('-')[0]}-*" if group else name
    return Refusal(
        kind=write.target.resource.kind,
        name=pattern,
        message=str(error).replace(name, pattern),
        group=group,
    )


def _group(write: Write) -> str:
    if not isinstance(write, Create):
        return ""
    metadata: Json = write.body.get("metadata") or {}
    found: dict[str, str] = metadata.get("labels") or {}
    return found.get(labels.GROUP, "")
