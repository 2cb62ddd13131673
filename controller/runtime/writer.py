"""Single writes, each recorded as an expectation before and after its request.

Nothing else in the runtime sends a mutating request for a plan, so that no write is forgotten.
Only this module decides what each response means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from controller.apimachinery.metadata import OWNER_UID, is_owned_by, requested_owner
from controller.apimachinery.patches import apply_merge_patch
from controller.kube.client import Client
from controller.kube.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    NotSent,
    Status,
    StatusError,
    is_namespace_terminating,
    may_have_happened,
)
from controller.kube.objects import KubeObject
from controller.kube.resources import INSTALL_CRDS
from controller.runtime.election import AlwaysLeader, Fence, while_leading
from controller.runtime.expectation import reference_of
from controller.runtime.expectations import Expectations
from controller.runtime.failed_groups import WriteOutcome, WriteResult, quote
from controller.runtime.kind import CreateError
from controller.runtime.plan import (
    Change,
    Create,
    Delete,
    Failure,
    JsonPatch,
    MergePatch,
    Replace,
    Target,
    Write,
    subresource_of,
)
from controller.runtime.record import Owner
from informers import is_older


async def read_live(client: Client, target: Target) -> KubeObject | None:
    """Return the object as a quorum read returns it, None if it does not exist.

    Raises:
        KubeError: the read failed.
    """
    try:
        return await client.get(target.resource, target.namespace, target.name)
    except NotFound:
        return None


class Writer:
    """Carries out writes on behalf of an owner.

    The result carries errors of the server; they are never raised. A cancelled write is recorded as
    unknown, and the cancellation propagates.

    Args:
        fence: checked before every write; limits its duration to that of the lease (LE-14).
    """

    def __init__(
        self,
        client: Client,
        expectations: Expectations,
        *,
        fence: Fence | None = None,
    ) -> None:
        self._client = client
        self._expectations = expectations
        self._fence: Fence = AlwaysLeader() if fence is None else fence

    async def perform(
        self,
        owner: Owner,
        write: Write,
        *,
        repetition: bool = False,
        on_silence: Callable[[Failure], None] | None = None,
    ) -> WriteResult:
        """Carry out one write and record its outcome.

        If a `repetition` is rejected, the outcome of the first attempt is still unknown.
        `on_silence` is called when the server takes long to answer.

        Raises:
            ValueError: the create lets the server choose the name, so it could not be repeated.
        """
        if isinstance(write, Create) and _metadata(write).get("name") != write.target.name:
            raise ValueError(f"{write.target.key} must be created under exactly this name")
        client = self._client.for_flow(owner.uid, _silence_of(write, on_silence))
        try:
            async with while_leading(self._fence):
                self._expectations.expect(owner, write)
                match write:
                    case Create():
                        return await self._create(client, owner, write)
                    case Delete():
                        return await self._delete(client, owner, write)
                    case MergePatch() | JsonPatch() | Replace():
                        return await self._change(client, owner, write)
        except KubeError as error:
            return self._on_error(owner, write, error, repetition=repetition)
        except asyncio.CancelledError:
            self._expectations.mark_unknown(owner, write)
            raise
        except BaseException:
            self._expectations.mark_failed(owner, write)
            raise

    def _on_error(
        self, owner: Owner, write: Write, error: KubeError, *, repetition: bool
    ) -> WriteResult:
        lost = WriteResult(write, WriteOutcome.UNKNOWN, error=error)
        unknown = may_have_happened(error)
        if unknown or repetition:
            self._expectations.mark_unknown(owner, write, lost.failure)
        else:
            self._expectations.mark_failed(owner, write)
        if unknown:
            return lost
        terminating = isinstance(write, Create) and is_namespace_terminating(error)
        result = WriteResult(
            write,
            WriteOutcome.NAMESPACE_TERMINATING if terminating else WriteOutcome.FAILED,
            error=error,
        )
        if isinstance(write, Create) and isinstance(error, StatusError):
            refusal = CreateError(result.reason, quote(error))
            errors = self._expectations.record(owner.uid).create_errors
            errors[reference_of(write.target)] = refusal
        return result

    async def _create(self, client: Client, owner: Owner, write: Create) -> WriteResult:
        target = write.target
        try:
            body = apply_merge_patch(write.body, await _secret_part(client, write))
            obj = await client.create(target.resource, target.namespace, body)
        except AlreadyExists as error:
            return await self._on_already_exists(client, owner, write, error)
        self._expectations.confirm(owner, write, obj, created=True)
        mismatch = _admission_mismatch(write, obj)
        if mismatch:
            self._expectations.admission_mismatch(
                owner, write, mismatch, blocking=_lacks_owner(write, obj)
            )
        return WriteResult(write, WriteOutcome.DONE, obj)

    async def _on_already_exists(
        self, client: Client, owner: Owner, write: Create, error: AlreadyExists
    ) -> WriteResult:
        """Find out whether the existing object is from an earlier attempt (EXP-33)."""
        try:
            found = await read_live(client, write.target)
        except KubeError:
            lost = WriteResult(write, WriteOutcome.UNKNOWN, error=error)
            self._expectations.mark_unknown(owner, write, lost.failure)
            return lost
        if found is None:
            self._expectations.mark_failed(owner, write)
            return WriteResult(write, WriteOutcome.CONFLICT, error=error)
        if not _lacks_owner(write, found):
            self._expectations.confirm(owner, write, found)
            return WriteResult(write, WriteOutcome.DONE, found)
        self._expectations.name_conflict(owner, write)
        return WriteResult(write, WriteOutcome.NAME_CONFLICT, found, error)

    async def _delete(self, client: Client, owner: Owner, write: Delete) -> WriteResult:
        target = write.target
        try:
            obj = await client.delete(
                target.resource,
                target.namespace,
                target.name,
                uid=write.uid,
                grace_seconds=write.grace_seconds,
                propagation=write.propagation,
            )
        except NotFound:
            self._expectations.confirm_gone(owner, write)
            return WriteResult(write, WriteOutcome.DONE)
        except Conflict as error:
            found = await read_live(client, target)
            if found is None or found.metadata.uid != write.uid:
                self._expectations.confirm_gone(owner, write)
                return WriteResult(write, WriteOutcome.DONE)
            self._expectations.precondition_failed(owner, write, found)
            return WriteResult(write, WriteOutcome.FAILED, found, error)
        self._expectations.confirm_delete(owner, write, obj)
        return WriteResult(write, WriteOutcome.DONE, obj)

    async def _change(self, client: Client, owner: Owner, write: Change) -> WriteResult:
        target = write.target
        resource, namespace, name = target.resource, target.namespace, target.name
        try:
            match write:
                case MergePatch():
                    patch, part = _with_preconditions(write), write.subresource
                    obj = await client.merge_patch(
                        resource, namespace, name, patch, subresource=part
                    )
                case JsonPatch():
                    changes, part = write.operations, write.subresource
                    obj = await client.json_patch(
                        resource, namespace, name, changes, subresource=part
                    )
                case Replace():
                    obj = await self._replace(client, write)
        except (Conflict, NotFound, Invalid) as error:
            return await self._on_precondition_failed(client, owner, write, error)
        if obj is None:
            self._expectations.mark_failed(owner, write)
            return WriteResult(write, WriteOutcome.DONE)
        self._expectations.confirm(owner, write, obj)
        return WriteResult(write, WriteOutcome.DONE, obj)

    async def _replace(self, client: Client, write: Replace) -> KubeObject | None:
        """Replace the object and return it; None if it already has all wanted values."""
        target = write.target
        resource, namespace, name = target.resource, target.namespace, target.name
        present = await client.get_raw(resource, namespace, name)
        uid = present["metadata"]["uid"]
        if uid != write.uid:
            raise _replaced(target, uid)
        wanted = apply_merge_patch(present, write.merge)
        wanted = apply_merge_patch(wanted, await _secret_part(client, write))
        if wanted == present:
            return None
        if wanted["metadata"].get("name") != name:
            raise ValueError(f"a change must not rename {target.key}")
        return await client.replace(resource, namespace, name, wanted)

    async def _on_precondition_failed(
        self,
        client: Client,
        owner: Owner,
        write: Change,
        error: StatusError,
    ) -> WriteResult:
        """Read the object live; `Invalid` is a conflict only if the object has changed.

        `NotFound` about an object that exists is none either: the server does not serve its status.

        It is not read if the caches show a newer one than the write was planned for, nor again
        while the store shows what the last read found; but a child may be lost meanwhile.
        """
        target = write.target
        known = self._expectations.peek(target)
        if isinstance(error, Conflict) and _is_outdated(write, known):
            self._expectations.mark_failed(owner, write)
            return WriteResult(write, WriteOutcome.CONFLICT, error=error)
        lost = isinstance(error, NotFound) and write.uid != owner.uid
        if not lost and self._expectations.record(owner.uid).is_refuted(write):
            self._expectations.mark_failed(owner, write)
            conflict = isinstance(error, Conflict)
            outcome = WriteOutcome.CONFLICT if conflict else WriteOutcome.FAILED
            return WriteResult(write, outcome, error=_explained(write, error))
        try:
            found = await read_live(client, target)
        except KubeError:
            self._expectations.mark_failed(owner, write)
            return WriteResult(write, WriteOutcome.FAILED, error=error)
        if found is None:
            self._expectations.confirm_gone(owner, write)
            return WriteResult(write, WriteOutcome.CONFLICT, error=error)
        self._expectations.precondition_failed(owner, write, found)
        unchanged = known is not None and (
            known.metadata.resource_version == found.metadata.resource_version
        )
        refused = isinstance(error, NotFound) or (isinstance(error, Invalid) and unchanged)
        failed = refused and found.metadata.uid == write.uid
        outcome = WriteOutcome.FAILED if failed else WriteOutcome.CONFLICT
        return WriteResult(write, outcome, found, _explained(write, error) if failed else error)


def _explained(write: Write, error: StatusError) -> StatusError:
    """Return the error to report for a change of an object that exists, with its cause."""
    subresource, target = subresource_of(write), write.target
    if not (subresource and isinstance(error, NotFound)):
        return error
    message = (
        f"the installed definition of {target.resource} has no subresource {subresource}: install "
        f"this operator's definitions ({INSTALL_CRDS})"
    )
    return NotFound(Status(404, "NotFound", message))


def _is_outdated(write: Write, known: KubeObject | None) -> bool:
    """Return whether the caches show an object that is newer than the write's precondition."""
    if known is None or not isinstance(write, MergePatch) or write.resource_version is None:
        return False
    return is_older(write.resource_version, known.metadata.resource_version)


def _silence_of(
    write: Write, report: Callable[[Failure], None] | None
) -> Callable[[KubeError], None] | None:
    """Return the function that a client calls while the server is silent; None without `report`."""
    if report is None:
        return None
    return lambda error: report(
        Failure(write, type(error).__name__, quote(error), unknown=True, overdue=True)
    )


def _with_preconditions(write: MergePatch) -> dict[str, Any]:
    patch = dict(write.patch)
    metadata: dict[str, Any] = dict(patch.get("metadata") or {})
    metadata["uid"] = write.uid
    if write.resource_version is not None:
        metadata["resourceVersion"] = write.resource_version
    patch["metadata"] = metadata
    return patch


def _replaced(target: Target, uid: str) -> Conflict:
    message = f"{target.resource} {target.key} was replaced by an object with uid {uid}"
    return Conflict(Status(409, "Conflict", message))


def _lacks_owner(write: Create, obj: KubeObject) -> bool:
    """Return whether the body requests an owner that the object does not have."""
    uid = requested_owner(_metadata(write), write.target.namespace)
    return bool(uid) and not is_owned_by(obj.metadata, uid)


async def _secret_part(client: Client, write: Create | Replace) -> Mapping[str, Any]:
    """Return what is generated for this request only, and merged into what is sent."""
    if write.secret is None:
        return {}
    source = write.reads
    if source is None:
        return write.secret()
    found = await client.get_raw(source.resource, source.namespace, source.name)
    try:
        return write.secret(found)
    except ValueError as error:
        raise NotSent(str(error)) from error


def _metadata(write: Create) -> Mapping[str, Any]:
    return write.body.get("metadata") or {}


def _admission_mismatch(write: Create, obj: KubeObject) -> str:
    """Say if admission changed the requested labels or owner, and what to do (EXP-43)."""
    requested: Mapping[str, str] = _metadata(write).get("labels") or {}
    labels = obj.metadata.labels or {}
    changed = sorted(name for name, value in requested.items() if labels.get(name) != value)
    what: list[str] = []
    if changed:
        what.append(f"label {changed[0]}" if len(changed) == 1 else f"labels {', '.join(changed)}")
    if _lacks_owner(write, obj) and OWNER_UID not in changed:
        what.append("owner reference")
    if not what:
        return ""
    where = f"{write.target.resource} {write.target.key}"
    return (
        f"admission changed {' and '.join(what)} of {where}; exempt the operator's objects from "
        "that webhook, then delete the object"
    )
