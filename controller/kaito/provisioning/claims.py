"""The state of one NodeClaim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import READY
from controller.apimachinery.ownership import owner_uid
from controller.apimachinery.timestamps import time_of
from controller.kaito.api import labels
from controller.kaito.api.message import cut

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.api.karpenter.nodeclaim import NodeClaim
    from controller.kube.objects import Condition, ObjectMeta

_LAUNCHED: Final = "Launched"
_STAGES: Final = (_LAUNCHED, "Registered", "Initialized")
_BENIGN: Final = "AwaitingReconciliation"
BENIGN_REASONS: Final = frozenset({"", _BENIGN})
"""Reasons of claims that need only time."""

_TERMINAL_REASONS: Final = frozenset({"InsufficientCapacity", "InsufficientCapacityError"})
_STOCK_OUT: Final = "all requested instance types were unavailable during launch"


class ClaimState(Enum):
    """The state of a claim."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """A claim that belongs to the Workspace.

    Attributes:
        name: name of the claim.
        uid: uid of the claim.
        state: its state.
        created: time of its creation.
        ready_since: time when it became ready; None if it is not ready, or the time is unknown.
        reason: one word about why it is not ready; may be empty.
        message: the same as a text.
    """

    name: str
    uid: str
    state: ClaimState
    created: datetime | None = None
    ready_since: datetime | None = None
    reason: str = ""
    message: str = ""


def belongs_to(claim: NodeClaim, workspace: ObjectMeta) -> bool:
    """Return whether a claim belongs to this Workspace, not to an earlier namesake (KAI-20).

    Claims of ours have the Workspace's uid. Those that Kaito created have its name and namespace
    only; they belong to it if they are not older.
    """
    uid = owner_uid(claim.metadata)
    if uid:
        return uid == workspace.uid
    own = claim.metadata.labels or {}
    names = (own.get(labels.WORKSPACE), own.get(labels.WORKSPACE_NAMESPACE))
    if names != (workspace.name, workspace.namespace):
        return False
    created = time_of(claim.metadata.creation_timestamp)
    since = time_of(workspace.creation_timestamp)
    return created is None or since is None or created >= since


def observed_claim(claim: NodeClaim) -> ObservedClaim:
    """Return the facts about a claim on which decisions depend."""
    metadata = claim.metadata
    state = claim_state(claim)
    ready = claim.status.condition(READY)
    since = ready.last_transition_time if ready and state is ClaimState.READY else None
    cause = None if state is ClaimState.READY else first_cause(claim)
    return ObservedClaim(
        name=metadata.name,
        uid=metadata.uid,
        state=state,
        created=time_of(metadata.creation_timestamp),
        ready_since=time_of(since),
        reason=cause.reason if cause else "",
        message=cut(cause.message) if cause else "",
    )


def claim_state(claim: NodeClaim) -> ClaimState:
    """Return the state. Without the condition Ready, a claim with a node is ready, as in Kaito."""
    if claim.metadata.terminating:
        return ClaimState.TERMINATING
    ready = claim.status.condition(READY)
    if ready is None and claim.status.node_name:
        return ClaimState.READY
    if ready is not None and ready.status == "True":
        return ClaimState.READY
    return ClaimState.FAILED if _is_hopeless(claim) else ClaimState.PENDING


def first_cause(claim: NodeClaim) -> Condition | None:
    """Return the condition of the earliest stage not reached; errors come before waits."""
    conditions = [found for stage in _STAGES if (found := claim.status.condition(stage))]
    open_ = [each for each in conditions if each.status != "True" and each.message]
    errors = [each for each in open_ if each.reason != _BENIGN]
    return next(iter(errors or open_), None)


def _is_hopeless(claim: NodeClaim) -> bool:
    """Return whether the provider has given up on it: no such machine is available."""
    launched = claim.status.condition(_LAUNCHED)
    if launched is None or launched.status != "False":
        return False
    return launched.reason in _TERMINAL_REASONS or _STOCK_OUT in launched.message
