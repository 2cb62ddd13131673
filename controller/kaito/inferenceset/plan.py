"""Plans the next writes of an InferenceSet; `plan_inference_set` is the entry.

The plan is a pure function of the observation and the time. The operator remembers nothing: the
next step follows from the existing Workspaces, so that a restarted operator continues.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.custom_object import dig
from controller.apimachinery.metadata import owner_reference
from controller.apimachinery.schedule import parse_schedule, read_duration
from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.definitions import leave_as_it_is
from controller.kaito.api.inference_pool import pool_writes
from controller.kaito.api.inferenceset import (
    INFERENCE_SETS,
    InferenceSet,
    InferenceSetSpec,
    MaintenanceWindow,
)
from controller.kaito.api.karpenter import NODE_POOLS
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.status import deletion_status
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.inferenceset.observe import (
    SCOPE,
    InferenceSetObservation,
    Replica,
    ReplicaPool,
)
from controller.kaito.inferenceset.status import current_status
from controller.kaito.workloads.pods import BASE_TAG
from controller.runtime.plan import (
    Create,
    Delete,
    Event,
    JsonPatch,
    MergePatch,
    Plan,
    Target,
    stages_of,
)
from controller.runtime.status import remove_finalizer


class SetDecision(Struct, frozen=True):
    """The creates and deletes that are due now, in any order."""

    create: tuple[str, ...] = ()
    delete: tuple[Replica, ...] = ()


def next_changes(
    desired: int, replicas: Sequence[Replica], free: Sequence[str], batch: int
) -> SetDecision:
    """Return the changes that lead to the desired number of replicas.

    For every state that was once observed, and however often it is carried out:

    - there are never more Workspaces than the set requests, unless there were before;
    - a replica that is being deleted is replaced only when it is gone: until then it holds nodes;
    - no ready replica is deleted if fewer ready ones than requested would be left.

    A name that another owner holds is not among the `free` ones: its replica waits, because another
    name would make a second one of it.
    """
    surplus = len(replicas) - desired
    if surplus > 0:
        return SetDecision(delete=tuple(islice(_too_many(replicas, desired, surplus), batch)))
    return SetDecision(create=tuple(free[: min(-surplus, batch)]))


def _too_many(replicas: Sequence[Replica], desired: int, surplus: int) -> Iterator[Replica]:
    """Yield the replicas to delete: first those on an old image, and those that do not serve.

    A replica on the present image is deleted only if there are too few old ones, so that an upgrade
    with a surge never deletes the new replica. Until that one serves, no old one is deleted.
    """
    staying = [each for each in replicas if not each.terminating]
    left = surplus - (len(replicas) - len(staying))
    spare_ready = sum(each.ready for each in staying) - desired
    spare_new = left - sum(each.on_old_image for each in staying)
    for each in sorted(staying, key=_worth):
        spared = (each.ready and spare_ready <= 0) or (not each.on_old_image and spare_new <= 0)
        if left <= 0 or spared:
            continue
        left -= 1
        spare_ready -= each.ready
        spare_new -= not each.on_old_image
        yield each


def _worth(each: Replica) -> tuple[bool, bool, str]:
    return not each.on_old_image, each.ready, each.name


_INHERITED: Final = (labels.INFERENCE_ROLE, labels.CREATED_BY_MULTI_ROLE)


def workspace_body(
    inference_set: InferenceSet, spec: InferenceSetSpec, name: str, options: KaitoOptions
) -> dict[str, Any]:
    """Return the body to create for a replica."""
    meta = inference_set.metadata
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": meta.namespace,
        "labels": _labels(inference_set, spec),
        "ownerReferences": [owner_reference(INFERENCE_SETS, meta)],
    }
    annotations = _annotations(inference_set, spec)
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": WORKSPACES.api_version,
        "kind": WORKSPACES.kind,
        "metadata": metadata,
        "resource": _resource(inference_set, spec, options),
        "inference": copy.deepcopy(spec.template.inference),
    }


def label_changes(
    inference_set: InferenceSet, spec: InferenceSetSpec, workspace: Workspace
) -> dict[str, Any]:
    """Return the merge patch that adds the labels of an edit; empty if none is missing.

    It also adds a label that another writer has taken off: the one that names the set is the name
    under which its servers serve the model. Labels are never removed, because others may have set
    them.
    """
    present = workspace.metadata.labels or {}
    wanted = _labels(inference_set, spec)
    missing = {key: wanted[key] for key in wanted if present.get(key) != wanted[key]}
    return {"metadata": {"labels": missing}} if missing else {}


def _labels(inference_set: InferenceSet, spec: InferenceSetSpec) -> dict[str, str]:
    meta = inference_set.metadata
    own = meta.labels or {}
    inherited = {key: own[key] for key in _INHERITED if key in own}
    creator = {labels.CREATED_BY_INFERENCE_SET: meta.name}
    return {**spec.template.metadata.labels, **inherited, **creator}


def _annotations(inference_set: InferenceSet, spec: InferenceSetSpec) -> dict[str, str]:
    own = inference_set.metadata.annotations or {}
    disabled = own.get(labels.DISABLE_BENCHMARK) == "true"
    opt_out = {labels.DISABLE_BENCHMARK: "true"} if disabled else {}
    return {**spec.template.metadata.annotations, **opt_out}


def _resource(
    inference_set: InferenceSet, spec: InferenceSetSpec, options: KaitoOptions
) -> dict[str, Any]:
    """Return the nodes of one replica; the instance type is that of nodes to be provisioned."""
    selector = copy.deepcopy(dig(inference_set.spec, "labelSelector"))
    resource: dict[str, Any] = {"labelSelector": selector}
    partition = dig(inference_set.spec, "template", "resource", "partition")
    if partition is not None:
        resource["partition"] = copy.deepcopy(partition)
    instance_type = spec.template.resource.instance_type
    if instance_type and not options.has_own_nodes:
        resource["instanceType"] = instance_type
    return resource


def create_workspaces(seen: InferenceSetObservation, decision: SetDecision) -> Iterator[Create]:
    """Create the replicas that are missing."""
    for name in decision.create:
        body = workspace_body(seen.inference_set, seen.spec, name, seen.options)
        note, of_all = f"Created Workspace {name}", "Created {count} Workspaces"
        created = Event("Normal", "CreatedWorkspace", "Create", note, of_all)
        yield Create(_target(seen, name), body, on_success=created)


def delete_workspaces(seen: InferenceSetObservation, decision: SetDecision) -> Iterator[Delete]:
    """Delete surplus replicas."""
    why = f"spec.replicas is {seen.spec.replicas}"
    for each in decision.delete:
        note = f"Deleted Workspace {each.name}: {why}"
        of_all = f"Deleted {{count}} Workspaces: {why}"
        deleted = Event("Normal", "DeletedWorkspace", "Delete", note, of_all)
        yield Delete(_target(seen, each.name), each.uid, on_success=deleted)


def label_workspaces(seen: InferenceSetObservation, decision: SetDecision) -> Iterator[MergePatch]:
    """Add labels that existing replicas lack: an edit brought them, or another writer took them."""
    leaving = {each.name for each in decision.delete}
    for workspace in seen.workspaces or ():
        meta = workspace.metadata
        if meta.terminating or meta.name in leaving:
            continue
        patch = label_changes(seen.inference_set, seen.spec, workspace)
        if patch:
            yield MergePatch(_target(seen, meta.name), meta.uid, patch)


def _upgrade_workspace(
    seen: InferenceSetObservation, step: UpgradeDecision, now: datetime
) -> Iterator[MergePatch]:
    """Ask the Workspace of one replica for the new image."""
    if step.replica is None:
        return
    target, started = _target(seen, step.replica.name), {labels.UPGRADE_STARTED: rfc3339(now)}
    metadata = {"labels": {labels.UPGRADE_TO: BASE_TAG}, "annotations": started}
    note = f"Workspace {target.name} gets version {BASE_TAG} of the image"
    event = Event("Normal", "UpgradeStarted", "Upgrade", note)
    yield MergePatch(target, step.replica.uid, {"metadata": metadata}, on_success=event)


def _target(seen: InferenceSetObservation, name: str) -> Target:
    return Target(WORKSPACES, seen.inference_set.metadata.namespace, name, SCOPE)


_BLOCKED_RETRY: Final = 60.0
"""Seconds between two checks of a name that another owner holds; its release causes no event."""


def plan_inference_set(seen: InferenceSetObservation, now: datetime) -> Plan:
    """Return the plan that takes the replicas one step towards the specification."""
    if seen.inference_set.metadata.terminating:
        return _plan_deletion(seen, now)
    return leave_as_it_is(seen.inference_set, seen.definition) or _plan_replicas(seen, now)


def _plan_replicas(seen: InferenceSetObservation, now: datetime) -> Plan:
    status = current_status(seen, now)
    if isinstance(seen.goal, Problem):
        return Plan(status=status)
    requeue_after = _BLOCKED_RETRY if seen.missing.taken or seen.unreadable else None
    if seen.has_pending_writes or seen.unreadable:
        return Plan(status=status, requeue_after=requeue_after)
    batch, meta = seen.options.batch, seen.inference_set.metadata
    pods = {labels.CREATED_BY_INFERENCE_SET: meta.name}
    step = next_upgrade(seen, now)
    desired = seen.spec.replicas + step.surge
    decision = next_changes(desired, seen.replicas, seen.missing.free, batch)
    waits = [each for each in (requeue_after, step.wait) if each is not None]
    return Plan(
        stages=stages_of(create_workspaces(seen, decision)),
        independent=(
            *delete_workspaces(seen, decision),
            *islice(label_workspaces(seen, decision), batch),
            *_upgrade_workspace(seen, step, now),
            *pool_writes(seen.inference_pool, INFERENCE_SETS, meta, pods),
            *next_budget(seen),
        ),
        status=status,
        requeue_after=min(waits, default=None),
    )


def _plan_deletion(seen: InferenceSetObservation, now: datetime) -> Plan:
    """Remove the finalizer that Kaito has added; the garbage collector deletes the Workspaces.

    So a user may orphan them on purpose, and a set can be deleted without an operator.
    """
    meta = seen.inference_set.metadata
    target = Target(INFERENCE_SETS, meta.namespace, meta.name, "inferenceset")
    removal = remove_finalizer(target, meta, labels.INFERENCE_SET_FINALIZER)
    if removal is not None:
        return Plan(commit=removal)
    kind, message = "InferenceSetDeleting", "inferenceset is being deleted"
    status = deletion_status(seen.inference_set, now, kind, "inferencesetDeleted", message)
    return Plan(status=status)


# Upgrades the image of an InferenceSet's servers, and replaces drifted nodes, replica by replica.
#
# In place, a replica gets the label that asks its Workspace for the image, and the next one follows
# when its server is ready. With a surge, a new replica is created instead, and an old one is
# deleted once the new one serves, as after any scaling down. Both begin only while the maintenance
# window is open. The state follows from the replicas alone, so that a restarted operator continues.
#
# The budget of each NodePool holds Karpenter back. It is opened for the pool of one replica, and
# closed when none of its nodes has drifted any more and the replica serves again.


class UpgradeDecision(Struct, frozen=True):
    """The next step of an upgrade.

    Attributes:
        wait: seconds until the maintenance window opens, if only that is missing.
    """

    replica: Replica | None = None
    surge: bool = False
    wait: float | None = None


_NOTHING: Final = UpgradeDecision()


def next_upgrade(seen: InferenceSetObservation, now: datetime) -> UpgradeDecision:
    """Return the next step towards the new image.

    Nothing begins while the number of replicas is another one than asked for, or one is on its way.
    """
    policy, replicas = seen.spec.upgrade_policy(seen.options), seen.replicas
    old = [each for each in replicas if each.on_old_image]
    if policy is None or not old or len(replicas) != seen.spec.replicas:
        return _NOTHING
    if any(each.terminating for each in replicas):
        return _NOTHING
    if not policy.has_surge and any(map(_is_under_way, replicas)):
        return _NOTHING
    wait = _seconds_until_open(policy.maintenance_window, now)
    if wait is None or wait > 0:
        return UpgradeDecision(wait=wait)
    if policy.has_surge:
        return UpgradeDecision(surge=True)
    return UpgradeDecision(min(old, key=lambda each: (each.ready, each.name)))


def _is_under_way(each: Replica) -> bool:
    """Return whether a replica was asked for the image, or has it and is not ready yet."""
    return each.upgraded_to == BASE_TAG if each.on_old_image else not each.has_ready_server


def _seconds_until_open(window: MaintenanceWindow | None, now: datetime) -> float | None:
    """Return the seconds until the maintenance window opens, 0 while it is; None for never."""
    if window is None:
        return 0.0
    schedule, length = parse_schedule(window.schedule), read_duration(window.duration)
    if schedule.latest(now - timedelta(seconds=float(length)), now, UTC) is not None:
        return 0.0
    opening = schedule.next_after(now, UTC)
    return None if opening is None else (opening - now).total_seconds()


_CLOSED: Final = "0"
_OPEN: Final = "1"


def next_budget(seen: InferenceSetObservation) -> Iterator[JsonPatch]:
    """Yield the change of a budget that is due.

    Budgets that a person has chosen stay, and so do those of pools of other Workspaces.
    """
    is_ready = {each.name: each.ready for each in seen.replicas if not each.terminating}
    own = [pool for pool in seen.pools if pool.workspace in is_ready]
    namespace = seen.inference_set.metadata.namespace
    opened = next((pool for pool in own if pool.nodes == _OPEN), None)
    if opened is not None:
        if is_ready[opened.workspace] and not opened.has_drifted:
            note = f"Drift replacement complete for workspace {namespace}/{opened.workspace}"
            yield _change(opened, _CLOSED, Event("Normal", "DriftComplete", "Drift", note))
        return
    drifted = next((pool for pool in own if pool.has_drifted and pool.nodes == _CLOSED), None)
    if drifted is not None:
        note = f"Started drift replacement for workspace {namespace}/{drifted.workspace}"
        yield _change(drifted, _OPEN, Event("Normal", "DriftStarted", "Drift", note))


def _change(pool: ReplicaPool, nodes: str, event: Event) -> JsonPatch:
    path = f"/spec/disruption/budgets/{pool.position}/nodes"
    operations: tuple[Mapping[str, str], ...] = (
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "test", "path": path, "value": pool.nodes},
        {"op": "replace", "path": path, "value": nodes},
    )
    target = Target(NODE_POOLS, "", pool.name, SCOPE)
    return JsonPatch(target, pool.uid, operations, on_success=event)
