"""The objects that describe a gang to a batch scheduler, and what became of them.

Volcano and scheduler-plugins have a PodGroup, Kubernetes' own API a Workload and a PodGroup. The
last two cannot be changed: of another size they are deleted, the PodGroup first, and made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from controller.apimachinery.custom_object import dig
from controller.apimachinery.metadata import owner_reference, ownership_text
from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.kube.objects import Gang, KubeObject, ObjectMeta
from controller.kube.resources import (
    PLUGIN_POD_GROUPS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    WORKLOADS,
    Resource,
)
from controller.ray.api import labels
from controller.ray.api.batch_schedulers import (
    HIGHEST_TIER,
    PLUGINS,
    QUEUE,
    TOPOLOGY_MODE,
    VOLCANO,
    WORKLOAD_API,
    BatchScheduler,
)
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster
from controller.ray.children import (
    Body,
    Child,
    ChildState,
    DesiredFields,
    Drift,
    OwnedKeys,
    OwnerConflict,
    as_made,
    body_of,
    child_scope,
    delete_child,
    observe_child,
)
from controller.ray.children.child_cluster import inherited_annotations
from controller.ray.pods.gang import GangSize, gang_size, is_gang, job_of, pod_group_name
from controller.runtime.kind import CacheReader, owned_by
from controller.runtime.plan import MergePatch, Target, Write

_TEMPLATE: Final = "cluster"
"""Name of the only group of a Workload: the head and all workers together."""

_REMEDY: Final = "delete that object, or rename this one"


class ObservedGroups(msgspec.Struct, frozen=True):
    """The observed objects that describe a gang.

    Attributes:
        unserved: a sentence about the API that is missing; empty if it is there.
        absent: objects that do not exist and may be created, in the order of their creation.
        drifted: objects of another size that can be changed.
        surplus: objects that are to be deleted now, or must not keep a finalizer.
        taken: sentences about objects of other owners under their names.
        awaited: a sentence about an object that must be gone before it is made again.
    """

    unserved: str = ""
    absent: tuple[Child, ...] = ()
    drifted: tuple[Drift, ...] = ()
    surplus: tuple[tuple[Resource[Any], KubeObject], ...] = ()
    taken: tuple[str, ...] = ()
    awaited: str = ""

    @property
    def hold_up(self) -> bool:
        """True if no pod may be created for now."""
        return bool(self.unserved or self.taken or self.awaited)


NO_GROUPS: Final = ObservedGroups()


def observe_cluster_groups(
    scheduler: BatchScheduler | None, cluster: RayCluster, spec: ClusterSpec, reads: CacheReader
) -> ObservedGroups:
    """Observe the groups of a RayCluster that is not suspended."""
    if scheduler is None or not scheduler.groups:
        return NO_GROUPS
    wanted = tuple(_cluster_groups(scheduler, cluster.metadata, spec))
    return _observe(scheduler, cluster.metadata, wanted, reads)


def volcano_group(owner: Resource[Any], meta: ObjectMeta, size: GangSize) -> Child:
    """Return the PodGroup of a RayCluster or RayJob; only its size is ever changed."""
    given = meta.labels or {}
    spec: Body = {"minMember": size.members, "minResources": size.amounts()}
    if TOPOLOGY_MODE in given:
        topology: Body = {"mode": given[TOPOLOGY_MODE]}
        if HIGHEST_TIER in given:
            topology["highestTierAllowed"] = int(given[HIGHEST_TIER])
        spec["networkTopology"] = topology
    if QUEUE in given:
        spec["queue"] = given[QUEUE]
    if labels.PRIORITY_CLASS in given:
        spec["priorityClassName"] = given[labels.PRIORITY_CLASS]
    annotations = inherited_annotations(meta.annotations)
    metadata = _metadata(owner, meta, pod_group_name(VOLCANO, meta))
    if annotations:
        metadata["annotations"] = annotations
    body = body_of(VOLCANO_POD_GROUPS, metadata, spec=spec, status={"phase": "Pending"})
    return Child(VOLCANO_POD_GROUPS, body, desired_fields=_size_fields)


def observe_group(child: Child, owner: ObjectMeta, reads: CacheReader) -> ObservedGroups:
    """Observe the Volcano PodGroup of a RayJob."""
    return _observe(VOLCANO, owner, (child,), reads)


def _cluster_groups(
    scheduler: BatchScheduler, meta: ObjectMeta, spec: ClusterSpec
) -> Iterator[Child]:
    if not is_gang(scheduler, meta, spec):
        return
    size = gang_size(spec, least=scheduler is VOLCANO)
    if scheduler is VOLCANO:
        if not job_of(meta):  # the RayJob's group is that of its cluster
            yield volcano_group(RAYCLUSTERS, meta, size)
    elif scheduler is PLUGINS:
        metadata = _metadata(RAYCLUSTERS, meta, pod_group_name(PLUGINS, meta))
        needed = {"minMember": size.members, "minResources": size.amounts()}
        body = body_of(PLUGIN_POD_GROUPS, metadata, spec=needed)
        yield Child(PLUGIN_POD_GROUPS, body, OwnerConflict.ADOPT, desired_fields=as_made)
    else:
        yield from _workload_groups(meta, {"gang": {"minCount": size.members}})


def _workload_groups(meta: ObjectMeta, policy: Body) -> Iterator[Child]:
    own = {"labels": {labels.CLUSTER: meta.name}}
    workload = body_of(
        WORKLOADS,
        _metadata(RAYCLUSTERS, meta, meta.name) | own,
        spec={
            "controllerRef": {
                "apiGroup": RAYCLUSTERS.group,
                "kind": RAYCLUSTERS.kind,
                "name": meta.name,
            },
            "podGroupTemplates": [{"name": _TEMPLATE, "schedulingPolicy": policy}],
        },
    )
    of_template = {"workloadName": meta.name, "podGroupTemplateName": _TEMPLATE}
    group = body_of(
        POD_GROUPS,
        _metadata(RAYCLUSTERS, meta, pod_group_name(WORKLOAD_API, meta)) | own,
        spec={"podGroupTemplateRef": {"workload": of_template}, "schedulingPolicy": policy},
    )
    yield Child(WORKLOADS, workload, desired_fields=_same_policy)
    yield Child(POD_GROUPS, group, desired_fields=_same_policy)


def _metadata(owner: Resource[Any], meta: ObjectMeta, name: str) -> Body:
    return {
        "name": name,
        "namespace": meta.namespace,
        "ownerReferences": [owner_reference(owner, meta)],
    }


# What becomes of an object that exists.


def _size_fields(body: Mapping[str, Any], present: Gang, _formerly: OwnedKeys) -> DesiredFields:
    """Return the size, if it is another one. Amounts are compared, not their texts."""
    wanted: Body = body["spec"]
    now = present.spec.min_resources or {}
    if present.spec.min_member == wanted["minMember"] and _amounts(now) == _amounts(
        wanted["minResources"]
    ):
        return DesiredFields({})
    resources = dict.fromkeys(now) | wanted["minResources"]
    return DesiredFields({"spec": {"minMember": wanted["minMember"], "minResources": resources}})


def _amounts(resources: Mapping[str, Any]) -> dict[str, int | str]:
    return {name: _amount(value) for name, value in resources.items()}


def _amount(value: Any) -> int | str:
    try:
        return parse_quantity(value).nanos
    except (InvalidQuantity, TypeError):
        return repr(value)


def _same_policy(body: Mapping[str, Any], present: KubeObject, _formerly: OwnedKeys) -> Any:
    """Return the specification as immutable if another number of pods must fit."""
    wanted, now = (_counts(spec) for spec in (body["spec"], msgspec.to_builtins(present)["spec"]))
    if wanted == now:
        return DesiredFields({})
    return DesiredFields({}, (f"it is of another size: {wanted[0][1]} pods must fit",))


def _counts(spec: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the names and numbers of pods of a Workload's groups, or of a PodGroup."""
    parts: Sequence[Any] = spec.get("podGroupTemplates", (spec,))
    return [
        (dig(each, "name"), dig(each, "schedulingPolicy", "gang", "minCount")) for each in parts
    ]


def _observe(
    scheduler: BatchScheduler, owner: ObjectMeta, wanted: Sequence[Child], reads: CacheReader
) -> ObservedGroups:
    missing = [each for each in scheduler.groups if not reads.serves(each)]
    if missing:
        named = " and ".join(map(str, missing))
        sentence = (
            f"the API server does not serve {named} in {missing[0].api_version}, or does not let "
            f"the operator list them; batch scheduler {scheduler.name} needs them: "
            f"{scheduler.install}"
        )
        return ObservedGroups(unserved=sentence if wanted else "")
    absent: list[Child] = []
    drifted: list[Drift] = []
    taken: list[str] = []
    stale: list[str] = []
    for child in wanted:
        observed = observe_child(child, owner.namespace, owner.uid, reads)
        present = observed.present
        if observed.state is ChildState.MISSING:
            absent.append(child)
        elif observed.state is ChildState.OWNER_CONFLICT:
            meta = present.metadata if present is not None else None
            taken.append(f"{child} exists and {ownership_text(meta)}; {_REMEDY}")
        elif observed.state is ChildState.TERMINATING:
            stale.append(f"{child} is being deleted, and is made again when it is gone")
        elif observed.immutable_fields:
            stale.append(f"{child} is replaced: {observed.immutable_fields[0]}")
        elif observed.drift is not None:
            drifted.append(observed.drift)
    surplus: list[tuple[Resource[Any], KubeObject]] = []
    if not taken and (stale or not wanted):
        surplus += _last_first(scheduler, owner, reads)
    return ObservedGroups(
        absent=() if taken or stale else tuple(absent),
        drifted=tuple(drifted),
        surplus=tuple(surplus),
        taken=tuple(taken),
        awaited="; ".join(stale),
    )


def _last_first(
    scheduler: BatchScheduler, owner: ObjectMeta, reads: CacheReader
) -> list[tuple[Resource[Any], KubeObject]]:
    """Return the objects to delete now: a Workload stays until its PodGroup is gone.

    A PodGroup that is being deleted would stay until its pods have ended: its finalizer goes.
    """
    for resource in reversed(scheduler.groups):
        found = owned_by(reads, resource, owner)
        if found:
            return [
                (resource, each)
                for each in found
                if not each.metadata.terminating or is_protected(each)
            ]
    return []


_PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
"""Finalizer of Kubernetes on PodGroups that pods refer to."""


def is_protected(obj: KubeObject) -> bool:
    """Return whether the object is kept by the finalizer of PodGroups."""
    return _PROTECTION in obj.metadata.finalizers


def remove_group(namespace: str, resource: Resource[Any], obj: KubeObject) -> Write:
    """Delete an object that describes a gang, or let go of one that is being deleted."""
    meta = obj.metadata
    if not meta.terminating:
        return delete_child(namespace, resource, obj)
    target = Target(resource, namespace, meta.name, child_scope(resource, meta.name))
    kept = [each for each in meta.finalizers if each != _PROTECTION]
    return MergePatch(
        target,
        meta.uid,
        {"metadata": {"finalizers": kept}},
        resource_version=meta.resource_version,
    )
