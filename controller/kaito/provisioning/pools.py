"""The state of a NodePool and its owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import READY
from controller.apimachinery.ownership import owner_uid
from controller.apimachinery.timestamps import time_of
from controller.kaito.api import labels

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from controller.kaito.api.karpenter.nodepool import NodePool
    from controller.kaito.provisioning.claims import ObservedClaim
    from controller.kube.objects import ObjectMeta


_FIRST_CLAIMS: Final = timedelta(seconds=10)
"""The time after the creation of a pool in which its first claims are created; later ones replace
them."""

_LATELY: Final = timedelta(minutes=10)


class PoolOwner(Enum):
    """The owner of the NodePool that has the name of a Workspace's."""

    THIS = "this Workspace"
    EARLIER = "an earlier Workspace of this name"
    OTHER = "another owner"


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """The NodePool that has the name of a Workspace's.

    Attributes:
        name: name of the pool.
        uid: uid of the pool.
        created: time of its creation.
        resource_version: resourceVersion of the pool.
        owner: whose it is.
        owner_text: the same, as messages name it.
        replicas: number of its nodes; None if it is not static.
        template: the mark of the machine and the labels that it is for; empty without one, or if
            it has others itself.
        instance_types: instance types of its nodes; empty if it does not require any.
        is_terminating: whether it is being deleted.
        reason: why it is not ready, in one word; empty if it is, or has not said.
        message: the same in words.
    """

    name: str
    uid: str
    resource_version: str = ""
    created: datetime | None = None
    owner: PoolOwner = PoolOwner.THIS
    owner_text: str = ""
    replicas: int | None = None
    template: str = ""
    instance_types: tuple[str, ...] = ()
    is_terminating: bool = False
    reason: str = ""
    message: str = ""

    def is_for(self, instance_type: str) -> bool:
        """Return whether its nodes are such machines, in any case; unknown ones may be (KAI-7)."""
        return _may_be(instance_type, self.instance_types)


def is_replacing(pool: ObservedPool, claims: Iterable[ObservedClaim], now: datetime) -> bool:
    """Return whether Karpenter replaces claims of a pool that were lost, or lately has.

    There are none at the moment, or some are new while the pool is not. So are those of a pool that
    has grown.
    """
    if pool.created is None or now - pool.created < _FIRST_CLAIMS:
        return False
    begun = pool.created + _FIRST_CLAIMS
    created = [each.created for each in claims]
    return not created or any(
        each is not None and each > max(begun, now - _LATELY) for each in created
    )


def observed_pool(pool: NodePool, workspace: ObjectMeta) -> ObservedPool:
    """Return the facts about a pool on which decisions depend."""
    meta, ready = pool.metadata, _not_ready(pool)
    owner = pool_owner(pool, workspace)
    return ObservedPool(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        created=time_of(meta.creation_timestamp),
        owner=owner,
        owner_text=_named_workspace(meta) if owner is PoolOwner.OTHER else owner.value,
        replicas=pool.spec.replicas,
        template=_mark(pool),
        instance_types=_instance_types(pool),
        is_terminating=meta.terminating,
        reason=ready[0],
        message=ready[1],
    )


def _mark(pool: NodePool) -> str:
    """Return the mark, unless another client has changed it: the pool has what it names."""
    mark = (pool.metadata.annotations or {}).get(labels.NODE_TEMPLATE, "")
    machine, *marks = mark.split(" ")
    own = pool.spec.template.metadata.labels
    has_labels = not own or set(marks) <= {f"{key}={value}" for key, value in own.items()}
    return mark if has_labels and _may_be(machine, _instance_types(pool)) else ""


def _may_be(instance_type: str, known: tuple[str, ...]) -> bool:
    return not known or instance_type.lower() in {each.lower() for each in known}


def pool_owner(pool: NodePool, workspace: ObjectMeta) -> PoolOwner:
    """Return the owner of a pool, by its uid, or by the labels that Kaito writes (KAI-9, KAI-20).

    Pools that Kaito created have no uid; they belong to a Workspace that is not younger.
    """
    meta = pool.metadata
    own, uid = meta.labels or {}, owner_uid(meta)
    if uid == workspace.uid:
        return PoolOwner.THIS
    names = (own.get(labels.POOL_WORKSPACE), own.get(labels.POOL_WORKSPACE_NAMESPACE))
    if names != (workspace.name, workspace.namespace):
        return PoolOwner.OTHER
    return PoolOwner.EARLIER if uid or _is_older(meta, workspace) else PoolOwner.THIS


def _is_older(meta: ObjectMeta, workspace: ObjectMeta) -> bool:
    created, since = time_of(meta.creation_timestamp), time_of(workspace.creation_timestamp)
    return created is not None and since is not None and created < since


def _named_workspace(meta: ObjectMeta) -> str:
    own = meta.labels or {}
    name, namespace = own.get(labels.POOL_WORKSPACE), own.get(labels.POOL_WORKSPACE_NAMESPACE)
    return f"Workspace {namespace}/{name}" if name and namespace else PoolOwner.OTHER.value


def _instance_types(pool: NodePool) -> tuple[str, ...]:
    for each in pool.spec.template.spec.requirements:
        if each.key == labels.INSTANCE_TYPE and each.operator == "In":
            return each.values
    return ()


def _not_ready(pool: NodePool) -> tuple[str, str]:
    """Return reason and message of the condition Ready, empty unless it is False."""
    for each in pool.status.conditions:
        if each.type == READY and each.status == "False":
            return each.reason or "NodePoolNotReady", each.message
    return "", ""
