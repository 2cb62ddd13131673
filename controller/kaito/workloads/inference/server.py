"""The server of a preset: the facts that its pods are made from besides the specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.api.options import Runtime
from controller.kaito.presets import VllmSettings, transformers_command, vllm_command
from controller.kaito.workloads.identity import leader_host
from controller.kaito.workloads.inference.probes import ProbedServer, server_probes

if TYPE_CHECKING:
    from typing import Any

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import InferenceSpec
    from controller.kaito.presets import Model, NodeGPUs
    from controller.kaito.workloads.revisions.revision import Revision
    from controller.kube.objects import ObjectMeta

SERVER_PORT: Final = 5000
BEHIND_SIDECAR_PORT: Final = 5001
_NODE_WEIGHTS: Final = "/opt/kaito/models"
_DECODE: Final = "decode"
_ROLES: Final = frozenset({"prefill", _DECODE})


@dataclass(frozen=True, slots=True)
class Serving:
    """The facts about the model and the nodes when the workload is created.

    Attributes:
        model: the model of the preset.
        gpus: GPUs of each node.
        nodes: number of nodes, each with one pod.
        revision: revision of the Workspace.
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


@dataclass(frozen=True, slots=True)
class Server:
    """The model server of one Workspace, by the annotations and labels that shape it.

    Attributes:
        workspace: metadata of the Workspace.
        inference: its specification.
        serving: the facts about model and nodes.
        options: options of the operator.
    """

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
            leader_host=leader_host(self.workspace) if self.is_distributed else "",
            served_name=self._served_name,
            with_adapters=bool(self.inference.adapters),
            with_config=bool(self.inference.config),
            performance_mode=self._annotations.get(labels.PERFORMANCE_MODE, ""),
            local_weights=self.local_weights,
            port=BEHIND_SIDECAR_PORT if self.has_sidecar else None,
        )
        return vllm_command(serving.model, settings)

    def probes(self) -> dict[str, Any]:
        """Return the probes of its container."""
        leader = leader_host(self.workspace) if self.is_distributed else ""
        return server_probes(
            ProbedServer(self.serving.model, self.port, leader, self.is_benchmarked)
        )

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
