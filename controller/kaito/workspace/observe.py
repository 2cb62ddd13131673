"""Gathers what a Workspace's plan depends on from the caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import READY
from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.metadata import owner_uid
from controller.apimachinery.validation import Problem
from controller.kaito.api import karpenter, labels
from controller.kaito.api.inference_pool import SeenInferencePool, observe_inference_pool
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.status import Cause
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.lookups.huggingface import WorkspaceLookups
from controller.kaito.provisioning.claims import (
    ClaimFacts,
    Commitment,
    Owner,
    observed_claim,
    owner_of,
    read_commitment,
)
from controller.kaito.provisioning.nodes import NodeFacts, matching, node_pool_name
from controller.kaito.provisioning.pool_decision import ObservedNodeClass, PoolFacts
from controller.kaito.provisioning.pools import PoolCommitment, observed_pool, read_pool_commitment
from controller.kaito.workspace import watches
from controller.kaito.workspace.edits import edit_problem, workspace_in_force
from controller.kaito.workspace.model_server import observe_workload
from controller.kaito.workspace.nodes import CLAIM_SCOPE, POOL_SCOPE, node_class_scope
from controller.kaito.workspace.observation import (
    Goal,
    WorkspaceObservation,
    memory_of,
    read_goal,
    wanted_metadata,
)
from controller.kube.objects import ObjectMeta
from controller.runtime.definitions import DefinitionReader, UnknownFieldFinder
from controller.runtime.kind import CacheReader, owned_by
from controller.runtime.record import Record


class WorkspaceSources(Struct, frozen=True):
    """The sources of an observation besides the caches."""

    goal_of: SpecificationMemo[Workspace, Goal | Problem]
    options: KaitoOptions
    read_definition: DefinitionReader
    unknown_fields_of: UnknownFieldFinder
    process: str
    lookups: WorkspaceLookups | None = None


def observe_workspace(
    key: str, reads: CacheReader, sources: WorkspaceSources
) -> WorkspaceObservation | None:
    """Read the Workspace `namespace/name`, its claims and nodes; None if it does not exist.

    While an edit is refused, it is observed as it was before, as far as that is stored: what had
    begun is followed.
    """
    workspace = sources.goal_of.present(key, reads.get(WORKSPACES, key))
    if workspace is None:
        return None
    seen = _observe(workspace, sources.goal_of(workspace), reads, sources)
    problem = seen.goal if isinstance(seen.goal, Problem) else edit_problem(seen)
    if problem is None:
        return seen
    former = workspace_in_force(workspace, owned_by(reads, watches.REVISIONS, workspace.metadata))
    goal = problem if former is None else read_goal(former, sources.options)
    if former is None or isinstance(goal, Problem):
        return replace(seen, goal=problem)
    return replace(_observe(former, goal, reads, sources), refused=problem)


def _observe(
    workspace: Workspace, goal: Goal | Problem, reads: CacheReader, sources: WorkspaceSources
) -> WorkspaceObservation:
    """Read what belongs to a Workspace with this goal."""
    meta, definition = workspace.metadata, sources.read_definition(reads, workspace)
    commitment = read_commitment((meta.annotations or {}).get(labels.NODE_CLAIMS))
    pool = _pool(meta, sources.options, reads)
    committed = commitment.names if commitment else frozenset[str]()
    if pool is not None and pool.commitment is not None:
        committed = committed.union(pool.commitment.claims)
    seen = WorkspaceObservation(
        workspace,
        goal,
        sources.options,
        commitment,
        claims=_claims(meta, commitment, committed, sources, reads),
        pool=pool,
        definition=definition,
        unknown_fields=sources.unknown_fields_of(workspace, reads),
        consistency_warnings=reads.record(meta.uid).consistency_warnings,
        clock_steady_since=reads.clock_steady_since,
        memory=memory_of(reads.record(meta.uid).memory),
    )
    if isinstance(goal, Problem):
        return seen
    options, lookups = sources.options, sources.lookups
    wanted = wanted_metadata(meta, goal, options)
    return replace(
        seen,
        nodes=_nodes(meta, goal, sources, reads),
        inference_pool=_inference_pool(meta, goal, reads) if options.inference_pools else None,
        workload=observe_workload(workspace, goal, reads, lookups),
        wanted_model=wanted,
        found_model=lookups.model(wanted) if lookups is not None and wanted is not None else None,
    )


def _inference_pool(workspace: ObjectMeta, goal: Goal, reads: CacheReader) -> SeenInferencePool:
    """Return the InferencePool of a server with vLLM; the replicas of a set have one together."""
    shared = {labels.CREATED_BY_INFERENCE_SET, labels.CREATED_BY_MULTI_ROLE}
    is_alone = shared.isdisjoint(workspace.labels or {})
    return observe_inference_pool(workspace, reads, is_wanted=is_alone and goal.is_served_by_vllm)


def _claims(
    workspace: ObjectMeta,
    commitment: Commitment | None,
    committed: frozenset[str],
    sources: WorkspaceSources,
    reads: CacheReader,
) -> ClaimFacts | None:
    """Return the claims; None if none are made, or the API server has none."""
    if sources.options.has_own_nodes or not reads.serves(karpenter.NODE_CLAIMS):
        return None
    own = _own_claims(workspace, committed, reads)
    record = reads.record(workspace.uid)
    pending = (each for each in record.pending_scopes if each.startswith(CLAIM_SCOPE))
    return ClaimFacts(
        workspace.uid,
        commitment=commitment,
        claims={claim.metadata.name: observed_claim(claim) for claim in own},
        pending=frozenset(each.removeprefix(CLAIM_SCOPE) for each in pending),
        absent=frozenset(n for n in committed if record.looked_up_absent(karpenter.NODE_CLAIMS, n)),
        conflicts=frozenset(
            n for n in committed if record.has_name_conflict(karpenter.NODE_CLAIMS, n)
        ),
        process=sources.process,
        remembered=memory_of(record.memory).slots,
        settings=sources.options.claims,
    )


def _own_claims(
    workspace: ObjectMeta, committed: frozenset[str], reads: CacheReader
) -> Iterator[karpenter.NodeClaim]:
    """Yield the claims with the Workspace's labels, and committed ones that have lost a label.

    A claim without the label of the watch is seen only after a look-up of its name.
    """
    found = reads.by_index(karpenter.NODE_CLAIMS, watches.BY_WORKSPACE, workspace.key)
    for each in found:
        if owner_of(each.metadata, watches.workspace_keys(each), workspace) is Owner.THIS:
            yield each
    for claim in (reads.get(karpenter.NODE_CLAIMS, name) for name in committed):
        if claim is None or watches.workspace_keys(claim):
            continue
        if owner_uid(claim.metadata) in {"", workspace.uid}:
            yield claim


def _nodes(
    workspace: ObjectMeta, goal: Goal, sources: WorkspaceSources, reads: CacheReader
) -> tuple[NodeFacts, ...]:
    """Return nodes with the labels that the user asks for; claimed ones name the Workspace too.

    Beside a NodePool, nodes count that came without any, if the user asks for a label at all, and
    if no other Workspace counts them.
    Nodes have the labels of their claims. Those of an earlier Workspace of this name go (KAI-20).
    """
    selector: Mapping[str, str] = goal.spec.resource.node_labels
    options = sources.options
    if options.has_own_nodes:
        return _labelled(selector, reads)
    found = reads.by_index(karpenter.NODES, watches.BY_WORKSPACE, workspace.key)
    if options.provisioner is Provisioner.NODE_POOLS:
        found += reads.by_index(karpenter.NODES, watches.BY_POOL_WORKSPACE, workspace.key)
    own = (each for each in found if owner_uid(each.metadata) in {"", workspace.uid})
    provisioned = matching(own, selector)
    if options.provisioner is Provisioner.NODE_CLAIMS or not selector:
        return provisioned
    others = (each for each in _labelled(selector, reads) if not each.has_workspace)
    return (*provisioned, *(each for each in others if _is_free(each.name, workspace, reads)))


def _is_free(node: str, workspace: ObjectMeta, reads: CacheReader) -> bool:
    """Return whether an earlier node may be counted; of several Workspaces the oldest counts it."""
    users = reads.by_index(WORKSPACES, watches.BY_SELECTOR, watches.node_text(node))
    if any(each.metadata.uid == workspace.uid for each in users):
        return workspace.uid == min((each.metadata for each in users), key=_seniority).uid
    return not users


def _seniority(meta: ObjectMeta) -> tuple[str, str]:
    return (meta.creation_timestamp or "", meta.uid)


def _labelled(selector: Mapping[str, str], reads: CacheReader) -> tuple[NodeFacts, ...]:
    """Return all nodes with these labels."""
    return matching(
        reads.by_index(karpenter.NODES, watches.BY_LABEL, watches.lookup_text(selector)), selector
    )


def _pool(workspace: ObjectMeta, options: KaitoOptions, reads: CacheReader) -> PoolFacts | None:
    """Return the NodePool of the Workspace's name; None in other modes, or if there are none."""
    if options.provisioner is not Provisioner.NODE_POOLS:
        return None
    if not (reads.serves(karpenter.NODE_POOLS) and reads.serves(karpenter.POOL_CLAIMS)):
        return None
    name = node_pool_name(workspace.namespace, workspace.name)
    text = (workspace.annotations or {}).get(labels.NODE_POOL_COMMITMENT)
    commitment, found = read_pool_commitment(text), reads.get(karpenter.NODE_POOLS, name)
    record = reads.record(workspace.uid)
    claims = reads.by_index(karpenter.POOL_CLAIMS, watches.BY_POOL_WORKSPACE, workspace.key)
    # those of an earlier Workspace of this name are not its own (KAI-20)
    own = (each for each in claims if owner_uid(each.metadata) in {"", workspace.uid})
    return PoolFacts(
        name=name,
        commitment=commitment,
        found=observed_pool(found, workspace) if found is not None else None,
        is_pending=POOL_SCOPE in record.pending_scopes,
        is_taken=found is None and record.has_name_conflict(karpenter.NODE_POOLS, name),
        is_absent=found is None and record.looked_up_absent(karpenter.NODE_POOLS, name),
        claims={claim.metadata.name: observed_claim(claim) for claim in own},
        node_class=_node_class(workspace, options.node_classes, record.pending_scopes, reads),
        absent=_absent(commitment, record, reads) if commitment is not None else frozenset(),
    )


def _absent(commitment: PoolCommitment, record: Record, reads: CacheReader) -> frozenset[str]:
    """Return committed nodes and claims that are certainly gone, and nodes that no longer fit."""
    lost = {n for n in commitment.nodes if record.looked_up_absent(karpenter.NODES, n)}
    unfit = {n for n in commitment.nodes if reads.get(karpenter.NODES, n) is not None}
    unseen = (n for n in commitment.claims if reads.get(karpenter.NODE_CLAIMS, n) is None)
    gone = {n for n in unseen if record.looked_up_absent(karpenter.NODE_CLAIMS, n)}
    return frozenset(lost | unfit | gone)


def _node_class(
    workspace: ObjectMeta,
    classes: karpenter.NodeClassSettings,
    scopes: frozenset[str],
    reads: CacheReader,
) -> ObservedNodeClass:
    name = classes.chosen_name(workspace.annotations or {})
    if not reads.serves(classes.resource):
        message = (
            f"the API server has no {classes.resource}: install Karpenter's provider, or set "
            "KARPENTER_NODE_CLASS_GROUP and its like to those of another one"
        )
        return ObservedNodeClass(name, Cause("NodeClassesNotServed", message))
    found = reads.get(classes.resource, name)
    if found is not None:
        return ObservedNodeClass(name, _problem(found, classes))
    is_created = classes.body(name) is not None
    remedy = "waiting until it is created" if is_created else "create it"
    wait = Cause("NodeClassMissing", f"there is no {classes.kind} {name}: {remedy}")
    is_missing = is_created and node_class_scope(name) not in scopes
    return ObservedNodeClass(name, wait, is_missing=is_missing)


def _problem(found: karpenter.NodeClass, classes: karpenter.NodeClassSettings) -> Cause | None:
    """Return why no pool can use a karpenter.NodeClass; None if one can."""
    ready = found.status.condition(READY)
    if found.metadata.terminating:
        why = " is being deleted"
    elif ready is None:
        why = ": waiting until Karpenter's provider reports that it is ready"
    elif ready.status == "True":
        return None
    else:
        why = f" is not ready: {ready.message or ready.reason}"
    return Cause("NodeClassNotReady", f"{classes.kind} {found.metadata.name}{why}")
