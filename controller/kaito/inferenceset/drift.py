"""Lets Karpenter replace the drifted nodes of an InferenceSet, one replica after the other.

The budget of each NodePool holds Karpenter back. It is opened for the pool of one replica, and
closed when none of its nodes has drifted any more and the replica serves again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_POOLS, POOL_CLAIMS
from controller.kaito.inferenceset.observation import ReplicaPool
from controller.kaito.provisioning.decision import name_in
from controller.runtime.kind import Owned
from controller.runtime.plan import Event, JsonPatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.kaito.api.karpenter import NodePool
    from controller.kaito.inferenceset.observation import Replica
    from controller.kube.objects import KubeObject, ObjectMeta
    from controller.runtime.kind import CacheReader

_DRIFTED: Final = "Drifted"
_CLOSED: Final = "0"
_OPEN: Final = "1"
_BY_SET: Final = "inference-set"


def _set_keys(obj: KubeObject) -> tuple[str, ...]:
    return name_in(obj, labels.POOL_INFERENCE_SET, labels.POOL_INFERENCE_SET_NAMESPACE)


WATCHES: Final = (
    Owned(NODE_POOLS, indexes={_BY_SET: _set_keys}, also_enqueues=_set_keys, optional=True),
    Owned(
        POOL_CLAIMS,
        label_selector=labels.POOL_WORKSPACE,
        indexes={_BY_SET: _set_keys},
        also_enqueues=_set_keys,
        optional=True,
    ),
)


def observe_pools(meta: ObjectMeta, reads: CacheReader) -> tuple[ReplicaPool, ...]:
    """Return the pools of a set's replicas that have a budget for drifted nodes, by name."""
    if not (reads.serves(NODE_POOLS) and reads.serves(POOL_CLAIMS)):
        return ()
    drifted = {
        (claim.metadata.labels or {}).get(labels.NODE_POOL)
        for claim in reads.by_index(POOL_CLAIMS, _BY_SET, meta.key)
        if (found := claim.status.condition(_DRIFTED)) is not None and found.status == "True"
    }
    pools = reads.by_index(NODE_POOLS, _BY_SET, meta.key)
    return tuple(sorted(_with_budgets(pools, drifted), key=lambda pool: pool.name))


def _with_budgets(pools: Sequence[NodePool], drifted: set[str | None]) -> Iterator[ReplicaPool]:
    for pool in pools:
        meta = pool.metadata
        workspace = (meta.labels or {}).get(labels.POOL_WORKSPACE, "")
        for position, budget in enumerate(pool.spec.disruption.budgets):
            if _DRIFTED in budget.reasons and not meta.terminating:
                has_drifted = meta.name in drifted
                yield ReplicaPool(
                    meta.name, meta.uid, workspace, position, budget.nodes, has_drifted
                )
                break


def next_budget(
    pools: Sequence[ReplicaPool], replicas: Sequence[Replica], namespace: str, scope: str
) -> Iterator[JsonPatch]:
    """Yield the change of a budget that is due; budgets that a person has chosen stay.

    Args:
        pools: the pools of the replicas.
        replicas: the replicas; pools of other Workspaces are left alone.
        namespace: namespace of the replicas.
        scope: scope of the write.
    """
    is_ready = {each.name: each.ready for each in replicas if not each.terminating}
    own = [pool for pool in pools if pool.workspace in is_ready]
    opened = next((pool for pool in own if pool.nodes == _OPEN), None)
    if opened is not None:
        if is_ready[opened.workspace] and not opened.has_drifted:
            note = f"Drift replacement complete for workspace {namespace}/{opened.workspace}"
            yield _change(opened, _CLOSED, Event("Normal", "DriftComplete", "Drift", note), scope)
        return
    drifted = next((pool for pool in own if pool.has_drifted and pool.nodes == _CLOSED), None)
    if drifted is not None:
        note = f"Started drift replacement for workspace {namespace}/{drifted.workspace}"
        yield _change(drifted, _OPEN, Event("Normal", "DriftStarted", "Drift", note), scope)


def _change(pool: ReplicaPool, nodes: str, event: Event, scope: str) -> JsonPatch:
    path = f"/spec/disruption/budgets/{pool.position}/nodes"
    operations: tuple[Mapping[str, str], ...] = (
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "test", "path": path, "value": pool.nodes},
        {"op": "replace", "path": path, "value": nodes},
    )
    target = Target(NODE_POOLS, "", pool.name, scope)
    return JsonPatch(target, pool.uid, operations, on_success=event)
