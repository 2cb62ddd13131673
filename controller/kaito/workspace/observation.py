"""What a Workspace is seen to be, what it asks for, and what the process remembers of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from controller.apimachinery.custom_object import status_of
from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.config_maps import (
    inference_config_errors,
    missing_config_error,
    training_config_errors,
)
from controller.kaito.api.fields import INVALID, message_of, via
from controller.kaito.api.inference_pool import SeenInferencePool
from controller.kaito.api.options import KaitoOptions, Provisioner, Runtime
from controller.kaito.api.revisions import (
    HistoryStep,
    Revision,
    WorkspaceRevision,
    is_revision_hash,
    revision_hash,
)
from controller.kaito.api.status import Cause
from controller.kaito.api.validation import runtime_errors, validate_workspace
from controller.kaito.api.workspace import Preset, Workspace, WorkspaceSpec
from controller.kaito.lookups.background import LookupState, Unanswered
from controller.kaito.lookups.benchmark import BenchmarkLog, Measurement
from controller.kaito.lookups.huggingface import ModelMetadata
from controller.kaito.presets.gpus import DISK_OF_UNKNOWN_SIZE, disk_request
from controller.kaito.presets.models import Model, find_model, model_id, read_model
from controller.kaito.provisioning.claims import ClaimFacts, Commitment, Slot
from controller.kaito.provisioning.nodes import (
    NodeFacts,
    NodeHistory,
    NodeRequest,
    can_claim,
    node_request,
)
from controller.kaito.provisioning.pool_decision import PoolFacts
from controller.kaito.workloads.tuning import config_name
from controller.kube.objects import Job, KubeObject, ObjectMeta, Pod, StatefulSet
from controller.runtime.definitions import InstalledDefinition
from controller.runtime.kind import FailedCreate
from controller.runtime.plan import Plan


class WorkspaceMemory(Struct, frozen=True):
    """The memory of a plan for the next one, besides what it stores. A restart forgets it.

    Attributes:
        generation: the generation of the Workspace that was read last, as the guard of its
            definition remembers it.
        slots: slots of the stored set with what their claims have shown, by name.
    """

    generation: object = None
    slots: Mapping[str, Slot] = field(default_factory=dict[str, "Slot"])
    nodes: NodeHistory = field(default_factory=NodeHistory)


def memory_of(remembered: object) -> WorkspaceMemory:
    """Return the memory of the last plan, an empty one if there is none."""
    return remembered if isinstance(remembered, WorkspaceMemory) else WorkspaceMemory()


def remember(plan: Plan, seen: WorkspaceObservation) -> Plan:
    """Return the plan with the generation that was read, if it has changed."""
    read = seen.definition.read
    if read is None:
        return plan
    memory = seen.memory if plan.memory is None else memory_of(plan.memory)
    return replace(plan, memory=replace(memory, generation=read))


class Goal(Struct, frozen=True):
    """The user's goal, read from a valid specification once for each state of the object.

    Attributes:
        model: the model to serve or tune; None for a template, or if unknown. A model that is not
            in the catalogue is known once an annotation has the facts about it.
        request: the nodes to provision; None if there are none.
        hash: hash of the specification, which distinguishes its revisions.
    """

    spec: WorkspaceSpec
    runtime: Runtime
    model: Model | None
    request: NodeRequest | None
    hash: str = ""

    @property
    def preset(self) -> Preset | None:
        """The preset of the model, None for a template."""
        purpose = self.spec.tuning or self.spec.inference
        return purpose.preset if purpose else None

    @property
    def config_name(self) -> str:
        """Name of the ConfigMap that the workload needs; empty if it needs none."""
        if self.spec.tuning is not None:
            return config_name(self.spec.tuning)
        return self.spec.inference.config if self.spec.inference is not None else ""

    @property
    def is_served_by_vllm(self) -> bool:
        """True if vLLM serves a preset."""
        is_preset = self.spec.inference is not None and self.preset is not None
        return is_preset and self.runtime is Runtime.VLLM

    @property
    def lacks_model(self) -> bool:
        """True if a model is to be served about which nothing is known yet."""
        return self.spec.tuning is None and self.preset is not None and self.model is None


def read_goal(workspace: Workspace, options: KaitoOptions) -> Goal | Problem:
    """Return the goal of a Workspace, or the problem that makes it invalid."""
    spec = validate_workspace(workspace, options)
    if isinstance(spec, Problem):
        return spec
    if options.provisioner is Provisioner.NODE_CLAIMS and not can_claim(options.cloud):
        message = f"nodes cannot be claimed on {options.cloud.value}; bring your own nodes"
        return Problem("resource", message, INVALID)
    annotations = workspace.metadata.annotations or {}
    model = _served_model(spec, annotations)
    runtime = options.runtime(annotations)
    if spec.inference is not None and model is not None:
        # validation does not judge a model that is not in the catalogue
        errors = tuple(via("inference", runtime_errors(model, spec.inference, runtime)))
        if errors:
            return Problem("inference", message_of(errors), INVALID)
    request = None
    if not options.has_own_nodes:
        request = node_request(
            spec.resource.instance_type,
            spec.resource.node_labels,
            disk_request(model) if model and spec.inference else DISK_OF_UNKNOWN_SIZE,
            annotations,
            options,
        )
    return Goal(spec, runtime, model, request, _hash(workspace))


def _hash(workspace: Workspace) -> str:
    """Return the stored hash while any version's hash of the specification equals it (KAI-2)."""
    stored = (workspace.metadata.annotations or {}).get(labels.HASH, "")
    return stored if stored and is_revision_hash(workspace, stored) else revision_hash(workspace)


def _served_model(spec: WorkspaceSpec, annotations: Mapping[str, str]) -> Model | None:
    purpose = spec.tuning or spec.inference
    if purpose is None or purpose.preset is None:
        return None
    name = purpose.preset.name
    return find_model(name) or read_model(annotations.get(labels.MODEL), name)


_NO_HISTORY: Final = HistoryStep(Revision(0, ""), "")


class SeenWorkload(Struct, frozen=True):
    """The objects of a Workspace besides nodes.

    Attributes:
        history: its present revision, and what is to be written for it.
        deployment: the server that a Kaito before 0.8 has made.
        pods: pods of its StatefulSet or its Job.
        failed_create: what the events of that object say about a pod that was refused.
        benchmark_log: the log that has a result of the benchmark which is not recorded yet.
        benchmark: the result in that log; None before it was read.
        has_local_disks: whether there is a class of disks that are part of the machine.
        has_pending_writes: whether the outcome of a write to one of these is unknown.
        has_pending_history: the same of a write to a revision.
        foreign: sentences about objects of others that have a name that it needs, by kind and name.
    """

    revisions: tuple[WorkspaceRevision, ...] = ()
    history: HistoryStep = _NO_HISTORY
    services: frozenset[str] = frozenset()
    server: StatefulSet | None = None
    deployment: KubeObject | None = None
    job: Job | None = None
    pods: tuple[Pod, ...] = ()
    failed_create: FailedCreate | None = None
    benchmark_log: BenchmarkLog | None = None
    benchmark: LookupState[Measurement] | None = None
    config: Mapping[str, str] | None = None
    has_local_disks: bool = False
    has_pending_writes: bool = False
    has_pending_history: bool = False
    foreign: Mapping[str, str] = field(default_factory=dict[str, str])


class WorkspaceObservation(Struct, frozen=True):
    """A Workspace, its claims and its nodes.

    Attributes:
        goal: what the user wants, or the `Problem` of an invalid specification or a refused edit.
        refused: the same, while the specification in force before the edit is followed, which
            `workspace` then has.
        claims: its claims; None if the API server has no such resource, or none are made.
        pool: its NodePool; None if the API server has no such resource, or none are made.
        wanted_model: the model to be looked up, None if there is none.
        found_model: the result of the look-up; None before it ended.
        consistency_warnings: sentences about writes that the cache contradicts.
        clock_steady_since: time since which the clock has not jumped; None if unknown.
    """

    workspace: Workspace
    goal: Goal | Problem
    options: KaitoOptions = field(default_factory=KaitoOptions)
    commitment: Commitment | None = None
    claims: ClaimFacts | None = None
    pool: PoolFacts | None = None
    nodes: tuple[NodeFacts, ...] = ()
    inference_pool: SeenInferencePool | None = None
    workload: SeenWorkload = field(default_factory=SeenWorkload)
    wanted_model: ModelMetadata | None = None
    found_model: LookupState[Model] | None = None
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()
    clock_steady_since: datetime | None = None
    unknown_fields: str = ""
    refused: Problem | None = None
    memory: WorkspaceMemory = field(default_factory=WorkspaceMemory)

    @property
    def valid_goal(self) -> Goal:
        """The goal of a Workspace that is known to be valid."""
        assert not isinstance(self.goal, Problem)
        return self.goal

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.workspace)


def config_problem(seen: WorkspaceObservation) -> Cause | None:
    """Return the problem of the options, whose ConfigMap may come later; None without any."""
    goal, config = seen.valid_goal, seen.workload.config
    namespace = seen.workspace.metadata.namespace
    name, tuning = goal.config_name, goal.spec.tuning
    if not name or (config is None and tuning is not None and not tuning.config):
        return None  # it needs none, or the default one is created for it
    if config is None:
        return Cause("ConfigMapNotFound", str(missing_config_error(name, namespace)))
    errors = (
        tuple(inference_config_errors(config, goal.model))
        if tuning is None
        else tuple(training_config_errors(name, namespace, config, tuning.method))
    )
    return Cause(INVALID, message_of(errors)) if errors else None


# The facts about a model that is not in the catalogue: looked up once, then kept in an annotation.
#
# A running server and a restarted operator then no longer depend on Hugging Face. A user without
# access to Hugging Face may write the annotation instead.

_REMEDY: Final = (
    f"a Workspace may also give the facts itself, in the annotation {labels.MODEL}, or serve the "
    "model with a template"
)


def wanted_metadata(
    workspace: ObjectMeta, goal: Goal, options: KaitoOptions
) -> ModelMetadata | None:
    """Return the model to be looked up for a valid Workspace; None if there is none."""
    preset = goal.preset
    if preset is None or not goal.lacks_model or not options.hugging_face:
        return None
    secret = preset.preset_options.model_access_secret
    return ModelMetadata(model_id(preset.name), workspace.namespace if secret else "", secret)


def missing_model(seen: WorkspaceObservation) -> Cause:
    """Return why a model is not known yet."""
    preset, found = seen.valid_goal.preset, seen.found_model
    unknown = f"model {preset.name if preset else ''} is not in the catalogue"
    if not seen.options.hugging_face:
        said = f"{unknown}, and the operator may not ask Hugging Face"
        return Cause("ModelMetadataOffline", f"{said}; {_REMEDY}")
    if isinstance(found, Unanswered):
        said = f"{unknown}, and {found.message}; the operator tries again"
        return Cause(found.reason, f"{said}; {_REMEDY}")
    return Cause("ModelMetadataPending", f"{unknown}: asking Hugging Face about it")
