"""Single writes, each recorded as an expectation before and after its request (EXP-21).

Nobody else in the runtime calls a mutating verb, so that no write can be forgotten. What each
answer means is decided here and nowhere else (EXP-31 to EXP-44).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from controller.apimachinery.merge_patch import apply_merge_patch
from controller.apimachinery.ownership import is_owned_by
from controller.kube.client import CONCURRENCY
from controller.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    NotSent,
    Status,
    StatusError,
    may_have_happened,
)
from controller.kube.objects import KubeObject
from controller.kube.resources import PODS
from controller.runtime.expectations.cache_barrier import PAGE_SIZE
from controller.runtime.leaderelection.election import AlwaysLeader
from controller.runtime.leaderelection.fence import while_leading
from controller.runtime.reconcile.fair_limiter import FairLimiter
from controller.runtime.reconcile.kind import NAMESPACE_TERMINATING, CreateError, LogText
from controller.runtime.reconcile.plan import (
    Create,
    Delete,
    Failure,
    JsonPatch,
    LiveList,
    LogTail,
    Lookup,
    MergePatch,
    Replace,
    Target,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.client import Client
    from controller.runtime.expectations.expectations import Expectations
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.leaderelection.election import Fence
    from controller.runtime.reconcile.plan import Write


class WriteOutcome(Enum):
    """What became of a write."""

    DONE = "done"
    CONFLICT = "conflict"  # a precondition failed: plan again, quietly
    NAME_CONFLICT = "taken"  # the name belongs to somebody else: plan again
    NAMESPACE_TERMINATING = (
        "unwanted"  # the namespace is going away: nothing to create, nothing to retry
    )
    FAILED = "failed"
    UNKNOWN = "unknown"  # the resolver finds out


@dataclass(frozen=True, slots=True)
class WriteResult:
    """One write and what became of it. `obj` is what the server returned, if it did."""

    write: Write
    outcome: WriteOutcome
    obj: KubeObject | None = None
    error: KubeError | None = None

    @property
    def failure(self) -> Failure | None:
        """For the status: None if it worked or will be planned again."""
        if self.error is None or self.outcome in {
            WriteOutcome.DONE,
            WriteOutcome.CONFLICT,
            WriteOutcome.NAME_CONFLICT,
        }:
            return None
        unknown = self.outcome is WriteOutcome.UNKNOWN
        return Failure(self.write, self.reason, str(self.error), unknown=unknown)

    @property
    def reason(self) -> str:
        """The error in one word, the server's if it gave one."""
        if self.outcome is WriteOutcome.NAMESPACE_TERMINATING:
            return NAMESPACE_TERMINATING
        if isinstance(self.error, StatusError) and self.error.status.reason:
            return self.error.status.reason
        return type(self.error).__name__


class Writer:
    """Carries out writes on behalf of an owner.

    Never raises for what a server can answer. A cancelled write is recorded as unknown and the
    cancellation goes on (EXP-40).

    Args:
        client: makes the requests.
        expectations: where they are recorded.
        fence: stands before every write, and limits its time to that of the lease (LE-14).
        concurrency: writes in flight at most. Owners get these slots in turn, so that one with
            many writes delays none with few.
    """

    def __init__(
        self,
        client: Client,
        expectations: Expectations,
        *,
        fence: Fence | None = None,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self._client = client
        self._expectations = expectations
        self._fence: Fence = AlwaysLeader() if fence is None else fence
        self._limiter = FairLimiter(concurrency)

    async def perform(self, owner: Owner, write: Write, *, repetition: bool = False) -> WriteResult:
        """Carry out one write and record what is known of it afterwards.

        A `repetition` that is refused says nothing about the first attempt: it stays unknown.

        Raises:
            ValueError: a create without a name of its own could not be repeated (EXP-31).
        """
        if isinstance(write, Create) and _metadata(write).get("name") != write.target.name:
            raise ValueError(f"{write.target.key} must be created under exactly this name")
        async with self._limiter.take(owner.uid):
            if not self._fence.is_leader():
                return WriteResult(
                    write, WriteOutcome.FAILED, error=NotSent("this process does not lead")
                )
            return await self._perform_recorded(owner, write, repetition=repetition)

    async def _perform_recorded(
        self, owner: Owner, write: Write, *, repetition: bool
    ) -> WriteResult:
        self._expectations.expect(owner, write)
        try:
            async with while_leading(self._fence):
                return await self._send(owner, write)
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
        unknown = may_have_happened(error)
        if unknown or repetition:
            self._expectations.mark_unknown(owner, write)
        else:
            self._expectations.mark_failed(owner, write)
        if unknown:
            return WriteResult(write, WriteOutcome.UNKNOWN, error=error)
        unwanted = isinstance(write, Create) and _namespace_terminating(error)
        result = WriteResult(
            write,
            WriteOutcome.NAMESPACE_TERMINATING if unwanted else WriteOutcome.FAILED,
            error=error,
        )
        if isinstance(write, Create) and isinstance(error, StatusError):
            self._expectations.record_create_error(
                owner, write, CreateError(result.reason, str(error))
            )
        return result

    async def look_up(self, owner: Owner, lookup: Lookup | LiveList | LogTail) -> KubeError | None:
        """Answer a lookup of a plan by live reads; the error if one failed.

        The tail of a log cannot fail: that it is not to be had is an answer.
        """
        try:
            match lookup:
                case Lookup(target):
                    self._expectations.record_lookup(owner, target, await self.read(target))
                case LiveList():
                    await self._list(owner, lookup)
                case LogTail():
                    self._expectations.record_log_tail(owner, lookup, await self._log_tail(lookup))
        except KubeError as error:
            return error
        return None

    async def _list(self, owner: Owner, lookup: LiveList) -> None:
        """Read only metadata, so that one malformed object hides nothing, then what is new."""
        resource, namespace = lookup.resource, lookup.namespace
        continue_ = ""
        while True:
            page = await self._client.list(
                replace(resource, view=KubeObject),
                namespace,
                label_selector=lookup.label_selector,
                limit=PAGE_SIZE,
                continue_=continue_,
            )
            for found in page.items:
                target = Target(resource, namespace, found.metadata.name)
                if (
                    is_owned_by(found.metadata, owner.uid)
                    and self._expectations.peek(target) is None
                ):
                    self._expectations.record_lookup(owner, target, await self.read(target))
            continue_ = page.continue_
            if not continue_:
                break
        self._expectations.record_list(owner, lookup)

    async def _log_tail(self, lookup: LogTail) -> LogText:
        namespace, selector = lookup.namespace, lookup.label_selector
        try:
            found = await self._client.list(
                replace(PODS, view=KubeObject), namespace, label_selector=selector
            )
            newest = max(found.items, key=_age_order, default=None)
            if newest is None:
                return LogText(unavailable=f"there is no pod with {selector}")
            text = await self._client.read_log_tail(
                namespace,
                newest.metadata.name,
                container=lookup.container,
                lines=lookup.lines,
                limit_bytes=lookup.limit_bytes,
            )
        except KubeError as error:
            return LogText(unavailable=str(error))
        return LogText(text)

    async def read(self, target: Target) -> KubeObject | None:
        """A live read at quorum; None if there is no such object.

        Raises:
            KubeError: no answer to that question.
        """
        try:
            return await self._client.get(target.resource, target.namespace, target.name)
        except NotFound:
            return None

    async def _send(self, owner: Owner, write: Write) -> WriteResult:
        match write:
            case Create():
                return await self._create(owner, write)
            case Delete():
                return await self._delete(owner, write)
            case MergePatch() | JsonPatch() | Replace():
                return await self._change(owner, write)

    async def _create(self, owner: Owner, write: Create) -> WriteResult:
        target = write.target
        try:
            obj = await self._client.create(
                target.resource, target.namespace, _body_with_secret(write)
            )
        except AlreadyExists as error:
            return await self._on_already_exists(owner, write, error)
        self._expectations.confirm(owner, write, obj)
        doubt = _admission_mismatch(write, obj)
        if doubt:
            blocking = not is_owned_by(obj.metadata, _owner_asked(write))
            self._expectations.admission_mismatch(owner, write, doubt, blocking=blocking)
        return WriteResult(write, WriteOutcome.DONE, obj)

    async def _on_already_exists(
        self, owner: Owner, write: Create, error: AlreadyExists
    ) -> WriteResult:
        """The name exists: ours from an earlier attempt, or somebody else's (EXP-33)."""
        try:
            found = await self.read(write.target)
        except KubeError:
            self._expectations.mark_unknown(owner, write)
            return WriteResult(write, WriteOutcome.UNKNOWN, error=error)
        if found is None:
            self._expectations.mark_failed(owner, write)
            return WriteResult(write, WriteOutcome.CONFLICT, error=error)
        wanted = _owner_asked(write)
        if not wanted or is_owned_by(found.metadata, wanted):
            self._expectations.confirm(owner, write, found)
            return WriteResult(write, WriteOutcome.DONE, found)
        self._expectations.name_conflict(owner, write)
        return WriteResult(write, WriteOutcome.NAME_CONFLICT, found, error)

    async def _delete(self, owner: Owner, write: Delete) -> WriteResult:
        target = write.target
        try:
            obj = await self._client.delete(
                target.resource,
                target.namespace,
                target.name,
                uid=write.uid,
                grace_seconds=write.grace_seconds,
                propagation=write.propagation,
            )
        except NotFound:
            self._expectations.confirm_gone(owner, write, write.uid)
            return WriteResult(write, WriteOutcome.DONE)
        except Conflict as error:
            found = await self.read(target)
            if found is None or found.metadata.uid != write.uid:
                self._expectations.confirm_gone(owner, write, write.uid)
                return WriteResult(write, WriteOutcome.DONE)
            self._expectations.precondition_failed(owner, write, found)
            return WriteResult(write, WriteOutcome.CONFLICT, found, error)
        self._expectations.confirm_delete(owner, write, write.uid, obj)
        return WriteResult(write, WriteOutcome.DONE, obj)

    async def _change(self, owner: Owner, write: MergePatch | JsonPatch | Replace) -> WriteResult:
        try:
            obj = await self._request(write)
        except (Conflict, NotFound, Invalid) as error:
            return await self._on_precondition_failed(owner, write, error)
        if obj is None:
            self._expectations.mark_failed(owner, write)
            return WriteResult(write, WriteOutcome.DONE)
        self._expectations.confirm(owner, write, obj)
        return WriteResult(write, WriteOutcome.DONE, obj)

    async def _request(self, write: MergePatch | JsonPatch | Replace) -> KubeObject | None:
        target = write.target
        resource, namespace, name = target.resource, target.namespace, target.name
        match write:
            case MergePatch():
                patch = _with_preconditions(write)
                return await self._client.merge_patch(
                    resource, namespace, name, patch, subresource=write.subresource
                )
            case JsonPatch():
                return await self._client.json_patch(
                    resource, namespace, name, write.operations, subresource=write.subresource
                )
            case Replace():
                return await self._replace(write)

    async def _replace(self, write: Replace) -> KubeObject | None:
        """None if the object is already as wanted."""
        target = write.target
        resource, namespace, name = target.resource, target.namespace, target.name
        present = await self._client.get_raw(resource, namespace, name)
        uid = present["metadata"]["uid"]
        if uid != write.uid:
            raise _replaced(target, uid)
        wanted = apply_merge_patch(present, write.merge)
        if wanted == present:
            return None
        if wanted["metadata"].get("name") != name:
            raise ValueError(f"a change must not rename {target.key}")
        return await self._client.replace(resource, namespace, name, wanted)

    async def _on_precondition_failed(
        self, owner: Owner, write: MergePatch | JsonPatch | Replace, error: StatusError
    ) -> WriteResult:
        """Read live what the object is now; Invalid is a conflict only if that explains it."""
        target = write.target
        known = self._expectations.peek(target)
        try:
            found = await self.read(target)
        except KubeError:
            self._expectations.mark_failed(owner, write)
            return WriteResult(write, WriteOutcome.FAILED, error=error)
        if found is None:
            self._expectations.confirm_gone(owner, write, write.uid)
            return WriteResult(write, WriteOutcome.CONFLICT, error=error)
        self._expectations.precondition_failed(owner, write, found)
        unchanged = known is not None and (
            known.metadata.resource_version == found.metadata.resource_version
        )
        if isinstance(error, Invalid) and unchanged and found.metadata.uid == write.uid:
            return WriteResult(write, WriteOutcome.FAILED, found, error)
        return WriteResult(write, WriteOutcome.CONFLICT, found, error)


def _age_order(pod: KubeObject) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def _with_preconditions(write: MergePatch) -> dict[str, Any]:
    patch = dict(write.patch)
    metadata: dict[str, Any] = dict(patch.get("metadata") or {})
    metadata["uid"] = write.uid
    if write.resource_version is not None:
        metadata["resourceVersion"] = write.resource_version
    patch["metadata"] = metadata
    return patch


def _replaced(target: Target, uid: str) -> Conflict:
    message = f"{target.resource} {target.key} is another object now, uid {uid}"
    return Conflict(Status(409, "Conflict", message))


def _namespace_terminating(error: KubeError) -> bool:
    return isinstance(error, Forbidden) and any(
        reason == NAMESPACE_TERMINATING for reason, _ in error.status.causes
    )


def _owner_asked(write: Create) -> str:
    """Uid of the controller owner reference in the body, empty if there is none."""
    references = cast("list[Mapping[str, Any]]", _metadata(write).get("ownerReferences") or [])
    return next((r.get("uid", "") for r in references if r.get("controller")), "")


def _body_with_secret(write: Create) -> Mapping[str, Any]:
    """The body with its secret part, which exists for one request only."""
    return write.body if write.secret is None else apply_merge_patch(write.body, write.secret())


def _metadata(write: Create) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", write.body.get("metadata") or {})


def _admission_mismatch(write: Create, obj: KubeObject) -> str:
    """A sentence if labels or owner are not those that were asked for (EXP-43)."""
    asked: Mapping[str, str] = _metadata(write).get("labels") or {}
    labels = obj.metadata.labels or {}
    changed = sorted(name for name, value in asked.items() if labels.get(name) != value)
    what: list[str] = []
    if changed:
        what.append(f"label {changed[0]}" if len(changed) == 1 else f"labels {', '.join(changed)}")
    owner = _owner_asked(write)
    if owner and not is_owned_by(obj.metadata, owner):
        what.append("owner reference")
    if not what:
        return ""
    where = f"{write.target.resource} {write.target.key}"
    return f"admission changed {' and '.join(what)} of {where}"
