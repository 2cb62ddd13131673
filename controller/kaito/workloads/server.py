"""The server of a model: what it runs, its probes, and one with a pod template of its own."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

from controller.apimachinery.custom_object import mapping
from controller.kaito.api import labels
from controller.kaito.api.options import KaitoOptions, Provisioner, Runtime
from controller.kaito.api.revisions import Revision
from controller.kaito.api.workspace import Body, InferenceSpec, ResourceSpec, WorkspaceSpec, child
from controller.kaito.presets.gpus import (
    NodeGPUs,
    UnknownGPUs,
    find_instance_type,
    gpus_of_node,
    gpus_of_slice,
    startup_seconds,
)
from controller.kaito.presets.models import Model
from controller.kaito.presets.runtimes import (
    RAY_PORT,
    VllmSettings,
    in_shell,
    transformers_command,
    vllm_command,
    with_flags,
)
from controller.kaito.workloads.pods import (
    asks_for_gpus,
    default_tolerations,
    node_affinity,
    node_terms,
)
from controller.kube.objects import ObjectMeta
from controller.kube.resources import STATEFUL_SETS

# Source of commands and numbers: kaito-project/kaito at 056b8280,
# pkg/workspace/inference/preset_inferences.go.
_PERIOD: Final = 10
_CHECK: Final = "python3 /workspace/vllm/multi-node-health-check.py"
BENCHMARK_SCRIPT: Final = "benchmark_entrypoint.py"
_BENCHMARK: Final = f"/workspace/vllm/{BENCHMARK_SCRIPT}"
_LONGEST_BENCHMARK: Final = 600
_LIVENESS_OF_SEVERAL: Final = {
    "initialDelaySeconds": 60,  # workers get this time to join before the leader is probed for them
    "timeoutSeconds": 5,
    "failureThreshold": 1,
    "terminationGracePeriodSeconds": 1,
}


def server_probes(server: Server) -> dict[str, Any]:
    """Return the probes; that of the start allows for all of it, the others begin after it."""
    failures = math.ceil(startup_seconds(server.serving.model) / _PERIOD)
    period = {"periodSeconds": _PERIOD}
    budget = {**period, "failureThreshold": failures}
    start: Body
    if server.leader_host:
        alive = _check(server, "liveness", {"ray-port": str(RAY_PORT)})
        ready = {
            **_check(server, "readiness", {"vllm-port": str(server.port)}),
            "timeoutSeconds": 1,
        }
        start = {**ready, **budget}
        readiness = {**ready, **period, "failureThreshold": 1}
        liveness = {**alive, **period, **_LIVENESS_OF_SEVERAL}
    else:
        request = {"httpGet": {"path": "/health", "port": server.port}, **period}
        start = {**request, **budget}
        readiness = {**request, "initialDelaySeconds": 30}
        liveness = {**request, "failureThreshold": 3}
    if server.is_benchmarked:
        command = {"exec": {"command": _benchmark(server)}}
        start = {**command, **budget, "timeoutSeconds": _LONGEST_BENCHMARK}
    return {"startupProbe": start, "livenessProbe": liveness, "readinessProbe": readiness}


def _benchmark(server: Server) -> list[str]:
    """Return the command; workers serve nothing and need not wait for the leader's measurement."""
    if not server.leader_host:
        return ["python3", _BENCHMARK]
    return in_shell(f'if [ "$POD_INDEX" = "0" ]; then python3 {_BENCHMARK}; else true; fi')


def _check(server: Server, what: str, flags: Mapping[str, str]) -> Body:
    address = {"leader-address": server.leader_host}
    return {"exec": {"command": in_shell(with_flags(f"{_CHECK} {what}", {**address, **flags}))}}


SERVER_PORT: Final = 5000
BEHIND_SIDECAR_PORT: Final = 5001
_NODE_WEIGHTS: Final = "/opt/kaito/models"
_DECODE: Final = "decode"
_ROLES: Final = frozenset({"prefill", _DECODE})


class Serving(Struct, frozen=True):
    """The facts about the model and the nodes when the workload is created.

    Attributes:
        on_local_disk: whether weights are kept on a disk of the machine. Of a workload that exists
            it is what that has (`is_on_local_disk`); else whether the machine has such a disk and
            there is a StorageClass `LOCAL_DISK_CLASS`.
        uses_earlier_nodes: whether some nodes did not come with the NodePool (KAI-21).
    """

    model: Model
    gpus: NodeGPUs
    nodes: int
    revision: Revision
    on_local_disk: bool = False
    uses_earlier_nodes: bool = False


class Server(Struct, frozen=True):
    """The model server of one Workspace, by the annotations and labels that shape it."""

    workspace: ObjectMeta
    inference: InferenceSpec
    serving: Serving
    options: KaitoOptions

    @property
    def is_vllm(self) -> bool:
        """True if vLLM serves the model."""
        return self.options.runtime(self._annotations) is Runtime.VLLM

    @property
    def is_distributed(self) -> bool:
        """True if the pods are one server together."""
        return self.is_vllm and self.serving.nodes > 1

    @property
    def leader_host(self) -> str:
        """Name of the first of several pods in the cluster's DNS; empty if there is only one."""
        if not self.is_distributed:
            return ""
        name, namespace = self.workspace.name, self.workspace.namespace
        return f"{name}-0.{headless_service_name(name)}.{namespace}.svc.cluster.local"

    @property
    def role(self) -> str:
        """`prefill` or `decode` where these are apart, else empty."""
        role = (self.workspace.labels or {}).get(labels.INFERENCE_ROLE, "")
        return role if role in _ROLES else ""

    @property
    def has_sidecar(self) -> bool:
        """True if requests pass through a router in the same pod."""
        return self.role == _DECODE and self.is_vllm

    @property
    def port(self) -> int:
        """The port at which the server listens."""
        return BEHIND_SIDECAR_PORT if self.has_sidecar else SERVER_PORT

    @property
    def is_benchmarked(self) -> bool:
        """True if its throughput is measured when it starts."""
        return self.is_vllm and self._annotations.get(labels.DISABLE_BENCHMARK) != "true"

    @property
    def local_weights(self) -> str:
        """The folder of the node that holds the weights; empty to download them."""
        preset = self.inference.preset
        if preset is None or self._annotations.get(labels.USE_LOCAL_WEIGHTS) != "true":
            return ""
        name = preset.name.strip().lower().replace("/", "-").replace("\\", "-")
        return "" if name in {"", ".", ".."} else f"{_NODE_WEIGHTS}/{name}"

    def command(self) -> list[str]:
        """Return the `command` of its container."""
        serving = self.serving
        if not self.is_vllm:
            return transformers_command(serving.model)
        settings = VllmSettings(
            gpus=serving.gpus,
            nodes=serving.nodes,
            leader_host=self.leader_host,
            served_name=self._served_name,
            with_adapters=bool(self.inference.adapters),
            with_config=bool(self.inference.config),
            performance_mode=self._annotations.get(labels.PERFORMANCE_MODE, ""),
            local_weights=self.local_weights,
            port=BEHIND_SIDECAR_PORT if self.has_sidecar else None,
        )
        return vllm_command(serving.model, settings)

    @property
    def _served_name(self) -> str:
        """The name of the model in requests; the servers of a set share one."""
        own = self.workspace.labels or {}
        if labels.CREATED_BY_MULTI_ROLE in own:
            return ""
        return own.get(labels.CREATED_BY_INFERENCE_SET, "")

    @property
    def _annotations(self) -> dict[str, str]:
        return self.workspace.annotations or {}


def workload_gpus(
    resource: ResourceSpec, options: KaitoOptions, node: tuple[str, Mapping[str, str]] | None = None
) -> NodeGPUs:
    """Return the GPUs of each node; where none are provisioned, of a ready one that matches.

    Raises:
        UnknownGPUs: no node is ready yet, its labels do not name its GPUs, or the instance type is
            not known; the message is Kaito's.
    """
    partition = resource.partition
    if options.mig and partition is not None and partition.mode == "mig":
        return gpus_of_slice(partition.profile)
    if not options.has_own_nodes:
        known = find_instance_type(options.cloud, resource.instance_type)
        if known is None:
            raise UnknownGPUs(
                f"invalid value: Unsupported SKU '{resource.instance_type}' for cloud provider: sku"
            )
        return known.gpus
    if node is None:
        wanted = ",".join(f"{key}={value}" for key, value in sorted(resource.node_labels.items()))
        raise UnknownGPUs(
            "no ready nodes found matching the workspace's label selector"
            + (f": {wanted}" if wanted else "")
        )
    gpus = gpus_of_node(*node)
    if options.accelerators and partition is not None and partition.mode == "accelerator":
        return gpus.some(partition.count or 1)
    return gpus


def template_stateful_set(
    workspace: ObjectMeta,
    spec: WorkspaceSpec,
    nodes: int,
    revision: Revision,
    options: KaitoOptions,
    *,
    uses_earlier_nodes: bool = False,
) -> Body:
    """Return the body that is created for a Workspace with a template.

    The user's affinity is replaced and the tolerations are added to, as in Kaito, but not those of
    GPUs and spot machines on own nodes if no container asks for a GPU: such pods would take
    the places of those that do. Kaito writes no revision here, because it never applies an edit.
    """
    assert spec.inference is not None
    selected = pod_labels(workspace)
    template: Body = copy.deepcopy(spec.inference.template or {})
    metadata = mapping(template.get("metadata"))
    own_labels = {**mapping(metadata.get("labels")), **selected}
    terms = node_terms(workspace, spec.resource, options, uses_earlier_nodes=uses_earlier_nodes)
    return {
        **child(STATEFUL_SETS, workspace, workspace.name, annotations=revision.annotations),
        "spec": {
            "replicas": nodes,
            "selector": {"matchLabels": selected},
            "template": {
                **template,
                "metadata": {**metadata, "labels": own_labels},
                "spec": _pod_spec(mapping(template.get("spec")), terms, options),
            },
        },
    }


def _pod_spec(given: Body, terms: list[list[Body]], options: KaitoOptions) -> Body:
    rest = {key: value for key, value in given.items() if key != "affinity"}
    tolerations = given.get("tolerations")
    own = cast("list[Any]", tolerations) if isinstance(tolerations, list) else []
    # Nodes that are provisioned for the Workspace are tainted, and its pods run nowhere else.
    on_tainted_nodes = options.provisioner is not Provisioner.OWN_NODES
    added = default_tolerations(options) if on_tainted_nodes or asks_for_gpus(given) else []
    return {
        **rest,
        **node_affinity(terms),
        **({"tolerations": [*own, *added]} if own or added else {}),
    }


_INHERITED = (labels.CREATED_BY_INFERENCE_SET, labels.CREATED_BY_MULTI_ROLE, labels.INFERENCE_ROLE)


def pod_labels(workspace: ObjectMeta) -> dict[str, str]:
    """Return the labels of the pods, which also select them."""
    inherited = workspace.labels or {}
    found = {key: inherited[key] for key in _INHERITED if key in inherited}
    return {labels.WORKSPACE: workspace.name, **found}


def headless_service_name(workspace_name: str) -> str:
    """Return the service that gives pods their names in the cluster's DNS."""
    return f"{workspace_name}-headless"
