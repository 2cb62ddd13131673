"""InferencePools: the pods that serve a model, for the Gateway API Inference Extension.

A pool names the pods and an endpoint picker, the Service that chooses one of them for each request.
Router and picker are other programs. Nothing else waits for a pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.conditions import ConditionSet
from controller.apimachinery.metadata import owner_reference
from controller.kaito.api import labels
from controller.kaito.api.status import what_failed
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.runtime.kind import CacheReader, CreateError, Owned, other_owner
from controller.runtime.plan import Create, Delete, Event, Target
from controller.runtime.reasons import refused_create

INFERENCE_POOLS: Final = Resource(
    "inference.networking.k8s.io", "v1", "inferencepools", "InferencePool", KubeObject
)
WATCH: Final = Owned(INFERENCE_POOLS, optional=True)
POOL_READY: Final = "InferencePoolReady"

_PORT: Final = 5000
_PICKER_PORT: Final = 9002
_NOT_SERVED: Final = (
    "the API server has no InferencePools: install the definitions of the Gateway API Inference "
    "Extension, or turn the feature gate gatewayAPIInferenceExtension off; the model is served "
    "meanwhile"
)


class SeenInferencePool(Struct, frozen=True):
    """The InferencePool of an object, as far as it is seen.

    Attributes:
        found: metadata of the object's own pool.
        conflict: end of a sentence about another owner's pool of the name; empty if it is free.
    """

    target: Target
    is_wanted: bool
    is_served: bool = False
    found: ObjectMeta | None = None
    conflict: str = ""
    refused: CreateError | None = None


def observe_inference_pool(
    owner: ObjectMeta, reads: CacheReader, *, is_wanted: bool
) -> SeenInferencePool:
    """Read the pool of an object; the kind must watch `WATCH`."""
    name = f"{owner.name}-inferencepool"
    target = Target(INFERENCE_POOLS, owner.namespace, name, "inference-pool")
    if not reads.serves(INFERENCE_POOLS):
        return SeenInferencePool(target, is_wanted)
    found = reads.get(INFERENCE_POOLS, target.key)
    conflict = other_owner(reads, INFERENCE_POOLS, target.key, owner.uid)
    return SeenInferencePool(
        target,
        is_wanted,
        is_served=True,
        found=found.metadata if found is not None and not conflict else None,
        conflict=conflict,
        refused=reads.record(owner.uid).create_error(INFERENCE_POOLS, target.key),
    )


def pool_writes(
    seen: SeenInferencePool | None, kind: Resource[Any], owner: ObjectMeta, pods: Mapping[str, str]
) -> Iterator[Create | Delete]:
    """Yield the create of a missing pool, or the delete of one that is not wanted any more.

    Of several pods with the labels `pods` that are one server, only the first serves.
    """
    if seen is None:
        return
    if seen.found is not None:
        if not seen.is_wanted and not seen.found.terminating:
            yield Delete(seen.target, seen.found.uid)
        return
    if seen.is_wanted and seen.is_served and not seen.conflict:
        note = f"created InferencePool {seen.target.name}"
        event = Event("Normal", "CreatedInferencePool", "Create", note)
        yield Create(seen.target, _body(seen.target, kind, owner, pods), on_success=event)


def _body(
    target: Target, kind: Resource[Any], owner: ObjectMeta, pods: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "apiVersion": INFERENCE_POOLS.api_version,
        "kind": INFERENCE_POOLS.kind,
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "ownerReferences": [owner_reference(kind, owner)],
        },
        "spec": {
            "selector": {"matchLabels": {**pods, labels.POD_INDEX: "0"}},
            "targetPorts": [{"number": _PORT}],
            "endpointPickerRef": {"name": f"{target.name}-epp", "port": {"number": _PICKER_PORT}},
        },
    }


def set_pool_condition(conditions: ConditionSet, seen: SeenInferencePool | None) -> None:
    """Report whether the pool is there and what it lacks; nothing where none is wanted."""
    if seen is None or not seen.is_wanted:
        conditions.remove(POOL_READY)
    elif seen.found is not None:
        message = f"InferencePool {seen.target.name} names the pods"
        conditions.set(POOL_READY, "True", "InferencePoolReady", message)
    else:
        conditions.set(POOL_READY, "False", *_cause(seen))


def _cause(seen: SeenInferencePool) -> tuple[str, str]:
    if not seen.is_served:
        return "InferencePoolsNotServed", _NOT_SERVED
    name = seen.target.name
    if seen.conflict:
        message = f"there is an InferencePool {name} that {seen.conflict}; delete or rename it"
        return "InferencePoolNameTaken", message
    if seen.refused is not None:
        return "InferencePoolFailed", what_failed(refused_create(seen.target, seen.refused))
    return "InferencePoolNotReady", "InferencePool is not ready"
