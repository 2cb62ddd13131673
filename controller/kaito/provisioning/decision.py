"""Decides which claims are created and deleted: a pure function of the observation.

The set of claims is committed before anything is created. Everything that exists or may exist
counts: pending, terminating and unknown claims, and those of an earlier set. So there are never
more claims than needed nodes, even if events or responses are lost, late or repeated.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import parse_rfc3339
from controller.apimachinery.custom_object import mapping
from controller.kaito.api import labels
from controller.kaito.provisioning.claims import (
    ClaimFacts,
    ClaimSettings,
    ClaimState,
    ObservedClaim,
    decides,
    next_set,
)
from controller.kaito.provisioning.nodes import NodeFacts
from controller.kaito.provisioning.pools import read_pool_commitment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from controller.kaito.api.karpenter import GpuNode
    from controller.kaito.api.workspace import Workspace
    from controller.kaito.provisioning.commitment import Commitment, Slot
    from controller.kube.objects import KubeObject


class Awaited(Enum):
    """An event for which a claim waits."""

    READY = "the claim becomes ready"
    GONE = "the claim is gone"
    ANSWER = "the outcome of a write is known"
    CONFIRMATION = "a look-up confirms that the claim is gone"
    BACK_OFF = "the back-off is over"
    ROOM = "claims of an earlier set are gone"


@dataclass(frozen=True, slots=True)
class ClaimWait:
    """A claim that waits for an event.

    Attributes:
        claim: its name.
        awaited: the event that it waits for.
        until: when the wait ends at the latest, None if only an event ends it.
        reason: the cause, in one word; may be empty.
        message: the same in words.
    """

    claim: str
    awaited: Awaited
    until: datetime | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """The steps that are due; the commitment comes first.

    Attributes:
        commitment: to be stored first if it differs from the stored one, under the revision of the
            object from which that was read.
        create: names of claims.
        delete: claims.
        confirm: names of claims that a live look-up must find absent.
        waits: what else is waited for.
        wake_at: when to decide again if nothing happens, None for never.
        unexpected: claims that belong to no set; they count and are left alone.
        again: whether claims are lost again and again: the last ones were not ready for long.
        is_due: whether the commitment is to be stored now, if it differs.
        shown: slots of the stored set with what their claims have shown, by name; for the next
            decision.
    """

    commitment: Commitment
    create: tuple[str, ...] = ()
    delete: tuple[ObservedClaim, ...] = ()
    confirm: tuple[str, ...] = ()
    waits: tuple[ClaimWait, ...] = ()
    wake_at: datetime | None = None
    unexpected: tuple[str, ...] = ()
    again: bool = False
    is_due: bool = True
    shown: Mapping[str, Slot] = field(default_factory=dict[str, "Slot"])


def decide_claims(
    facts: ClaimFacts, now: datetime, settings: ClaimSettings | None = None
) -> ClaimDecision:
    """Return the next step."""
    settings = settings or ClaimSettings()
    found = next_set(facts, now, settings)
    slots = found.commitment.slots
    again = any(slot.failures_when(now, settings.longest_retry) > 1 for slot in slots)
    decision = _steps(found.commitment, facts, now, found.held_until, again=again)
    is_due = not again or decides(decision.commitment, facts)
    return dataclasses.replace(decision, is_due=is_due, shown=found.shown)


def _steps(
    commitment: Commitment,
    facts: ClaimFacts,
    now: datetime,
    held_until: datetime | None,
    *,
    again: bool,
) -> ClaimDecision:
    """Return the decision that the set leads to."""
    claims = facts.claims
    missing = [slot for slot in commitment.slots if slot.name not in claims]
    unseen = [slot for slot in missing if not slot.seen and slot.name not in facts.pending]
    due = [slot for slot in unseen if slot.may_be_created(now)]
    room = max(len(commitment.slots) - _existing(commitment, facts), 0)
    created = frozenset(slot.name for slot in due[:room])
    backing_off = [slot for slot in unseen if not slot.may_be_created(now)]
    wakes = [*map(_retry_at, backing_off), *([held_until] if held_until else [])]
    known = {*(slot.name for slot in commitment.slots), *commitment.discarded}
    return ClaimDecision(
        commitment=_begun(commitment, created, facts.process),
        create=tuple(slot.name for slot in due[:room]),
        delete=tuple(_deleted(commitment, facts)),
        confirm=tuple(_unconfirmed(commitment, facts)),
        waits=(*_waits(commitment, facts), *_held_back(due[room:]), *_backing_off(backing_off)),
        wake_at=min(wakes, default=None),
        unexpected=tuple(sorted(claims.keys() - known)),
        again=again,
    )


def _begun(commitment: Commitment, names: frozenset[str], process: str) -> Commitment:
    """Return the set, marked before this process creates claims of these names."""
    slots = [
        replace(slot, begun_by=process) if slot.name in names else slot for slot in commitment.slots
    ]
    return replace(commitment, slots=tuple(slots))


def _existing(commitment: Commitment, facts: ClaimFacts) -> int:
    """Return the number of claims that exist or may exist."""
    unsure = {slot.name for slot in commitment.slots if slot.seen}
    unsure |= set(commitment.discarded) - facts.absent
    return len(facts.claims.keys() | facts.pending | unsure)


def _deleted(commitment: Commitment, facts: ClaimFacts) -> Iterable[ObservedClaim]:
    """Return claims that have failed for good, and those of an earlier set."""
    failed = [slot.name for slot in commitment.slots if _has_failed(slot, facts)]
    for name in (*failed, *commitment.discarded):
        claim = facts.claims.get(name)
        if claim and claim.state is not ClaimState.TERMINATING and name not in facts.pending:
            yield claim


def _has_failed(slot: Slot, facts: ClaimFacts) -> bool:
    claim = facts.claims.get(slot.name)
    return claim is not None and claim.state is ClaimState.FAILED


def _unconfirmed(commitment: Commitment, facts: ClaimFacts) -> Iterable[str]:
    """Return claims that existed, or may have, and are not observed."""
    seen = [slot.name for slot in commitment.slots if slot.seen]
    for name in (*seen, *commitment.discarded):
        if name not in facts.claims and name not in facts.pending and name not in facts.absent:
            yield name


def _waits(commitment: Commitment, facts: ClaimFacts) -> Iterable[ClaimWait]:
    for slot in commitment.slots:
        claim = facts.claims.get(slot.name)
        reason, message = slot.reason, slot.message
        if slot.name in facts.pending:
            yield ClaimWait(slot.name, Awaited.ANSWER, None, reason, message)
        elif claim is None:
            if slot.seen:
                yield ClaimWait(slot.name, Awaited.CONFIRMATION, None, reason, message)
        elif claim.state is ClaimState.PENDING:
            # what the present claim says is newer than why the last one failed
            cause = (claim.reason or reason, claim.message or message)
            yield ClaimWait(slot.name, Awaited.READY, None, *cause)
        elif claim.state is not ClaimState.READY:
            yield ClaimWait(slot.name, Awaited.GONE, None, reason, message)


def _held_back(slots: Iterable[Slot]) -> Iterable[ClaimWait]:
    for slot in slots:
        yield ClaimWait(slot.name, Awaited.ROOM, None, slot.reason, slot.message)


def _backing_off(slots: Iterable[Slot]) -> Iterable[ClaimWait]:
    for slot in slots:
        yield ClaimWait(slot.name, Awaited.BACK_OFF, _retry_at(slot), slot.reason, slot.message)


def _retry_at(slot: Slot) -> datetime:
    return parse_rfc3339(slot.retry_at)


# Finds the Workspaces that an event of a claim or node concerns, and the nodes of a Workspace.

BY_WORKSPACE: Final = "workspace"
"""Index of claims and nodes by `namespace/name` of the Workspace that their labels name."""

BY_POOL_WORKSPACE: Final = "pool-workspace"
"""The same for claims and nodes of a NodePool, which have other labels."""

BY_LABEL: Final = "label"
"""Index of nodes by each of their labels, and of all nodes by the empty text."""

BY_SELECTOR: Final = "node-selector"
"""Index of Workspaces by the label of nodes under which these are looked up."""

_PRESSURES: Final = ("DiskPressure", "MemoryPressure", "PIDPressure")


def workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return `namespace/name` of the Workspace that an object's labels name; none without."""
    return name_in(obj, labels.WORKSPACE, labels.WORKSPACE_NAMESPACE)


def pool_workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return the same of an object that came with a NodePool."""
    return name_in(obj, labels.POOL_WORKSPACE, labels.POOL_WORKSPACE_NAMESPACE)


def claim_workspace_keys(obj: KubeObject) -> tuple[str, ...]:
    """Return the same, with or without a NodePool."""
    return (*workspace_keys(obj), *pool_workspace_keys(obj))


def selectable_by(node: GpuNode) -> tuple[str, ...]:
    """Return all texts under which a node is looked up."""
    return ("", *(_pair(key, value) for key, value in (node.metadata.labels or {}).items()))


def looked_up_by(workspace: Workspace) -> tuple[str, ...]:
    """Return the text by which a Workspace's nodes are looked up; it may be invalid."""
    selector = mapping(mapping(workspace.resource).get("labelSelector"))
    return (lookup_text(mapping(selector.get("matchLabels"))),)


def used_by(workspace: Workspace) -> tuple[str, ...]:
    """Return the texts of the nodes that a Workspace uses or may use beside its NodePool.

    A selector without labels selects no node there.
    """
    text = (workspace.metadata.annotations or {}).get(labels.NODE_POOL_COMMITMENT)
    commitment = read_pool_commitment(text)
    committed = commitment.nodes if commitment is not None else ()
    return (*filter(None, looked_up_by(workspace)), *map(node_text, committed))


def usable_by(node: GpuNode) -> tuple[str, ...]:
    """Return all texts under which a node is looked up there: of its labels, and of itself."""
    return (*selectable_by(node), node_text(node.metadata.name))


def node_text(name: str) -> str:
    """Return the text by which Workspaces that count a node are found; no label equals it."""
    return f"node/{name}"


def lookup_text(selector: Mapping[str, object]) -> str:
    """Return the first label of a selector, by which nodes are looked up; empty if it has none."""
    pairs = sorted(
        _pair(key, value)
        for key, value in selector.items()
        if isinstance(value, str) and labels.without_reserved({key: value})
    )
    return pairs[0] if pairs else ""


def matching(nodes: Iterable[GpuNode], selector: Mapping[str, str]) -> tuple[NodeFacts, ...]:
    """Return the facts about the nodes that have all labels of a selector, by name."""
    found = [
        node_facts(node)
        for node in nodes
        if selector.items() <= (node.metadata.labels or {}).items()
    ]
    return tuple(sorted(found, key=lambda node: node.name))


def node_facts(node: GpuNode) -> NodeFacts:
    """Return the facts about a node."""
    status = node.status
    return NodeFacts(
        name=node.metadata.name,
        uid=node.metadata.uid,
        labels=node.metadata.labels or {},
        is_ready=status.is_true("Ready") and not node.metadata.terminating,
        gpus=_number(status.capacity.gpus),
        pressures=tuple(each for each in _PRESSURES if status.is_true(each)),
    )


def name_in(obj: KubeObject, name_label: str, namespace_label: str) -> tuple[str, ...]:
    """Return the key of the object that labels name; empty if they name none."""
    own = obj.metadata.labels or {}
    name, namespace = own.get(name_label), own.get(namespace_label)
    return (f"{namespace}/{name}",) if name and namespace else ()


def _pair(key: str, value: str) -> str:
    return f"{key}={value}"


def _number(quantity: str | int) -> int:
    """Return the whole number of GPUs."""
    text = str(quantity)
    return int(text) if text.isascii() and text.isdigit() else 0
