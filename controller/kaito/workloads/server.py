"""The server of a model: what it runs, and its probes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.kaito.api import labels
from controller.kaito.api.options import Runtime
from controller.kaito.presets import (
    RAY_PORT,
    VllmSettings,
    in_shell,
    startup_seconds,
    transformers_command,
    vllm_command,
    with_flags,
)
from controller.kaito.workloads.revisions import leader_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import InferenceSpec
    from controller.kaito.presets import Model, NodeGPUs
    from controller.kaito.workloads.pods import Body
    from controller.kaito.workloads.revisions import Revision
    from controller.kube.objects import ObjectMeta


# Probes of model servers.
#
# The startup probe allows for the model's whole start; the other probes begin after it.

# Source of commands and numbers: kaito-project/kaito at 056b8280,
# pkg/workspace/inference/preset_inferences.go.
_PERIOD: Final = 10
_CHECK: Final = "python3 /workspace/vllm/multi-node-health-check.py"
BENCHMARK_SCRIPT: Final = "benchmark_entrypoint.py"
_BENCHMARK: Final = f"/workspace/vllm/{BENCHMARK_SCRIPT}"
_LONGEST_BENCHMARK: Final = 600
_JOIN_TIME: Final = 60
"""Seconds that workers get to join before the leader is probed for them."""


@dataclass(frozen=True, slots=True)
class ProbedServer:
    """The facts on which the probes of a model server depend.

    Attributes:
        model: the model that it serves.
        port: port at which it listens.
        leader_host: name of the first of several pods; empty if there is one only.
        benchmarked: whether the start includes a measurement.
    """

    model: Model
    port: int
    leader_host: str = ""
    benchmarked: bool = False


def server_probes(server: ProbedServer) -> dict[str, Any]:
    """Return the probes as fields of the container."""
    return {
        "startupProbe": _startup(server),
        "livenessProbe": _liveness(server),
        "readinessProbe": _readiness(server),
    }


def _startup(server: ProbedServer) -> Body:
    failures = math.ceil(startup_seconds(server.model) / _PERIOD)
    budget = {"periodSeconds": _PERIOD, "failureThreshold": failures}
    if server.benchmarked:
        return _command(_benchmark(server), budget | {"timeoutSeconds": _LONGEST_BENCHMARK})
    if server.leader_host:
        return _command(_readiness_check(server), budget | {"timeoutSeconds": 1})
    return _request(server, budget)


def _liveness(server: ProbedServer) -> Body:
    if not server.leader_host:
        return _request(server, {"periodSeconds": _PERIOD, "failureThreshold": 3})
    numbers = {
        "initialDelaySeconds": _JOIN_TIME,
        "periodSeconds": _PERIOD,
        "timeoutSeconds": 5,
        "failureThreshold": 1,
        "terminationGracePeriodSeconds": 1,
    }
    return _command(_check(server, "liveness", {"ray-port": str(RAY_PORT)}), numbers)


def _readiness(server: ProbedServer) -> Body:
    if not server.leader_host:
        return _request(server, {"initialDelaySeconds": 30, "periodSeconds": _PERIOD})
    numbers = {"periodSeconds": _PERIOD, "timeoutSeconds": 1, "failureThreshold": 1}
    return _command(_readiness_check(server), numbers)


def _benchmark(server: ProbedServer) -> list[str]:
    """Return the command; workers serve nothing and need not wait for the leader's measurement."""
    if not server.leader_host:
        return ["python3", _BENCHMARK]
    return in_shell(f'if [ "$POD_INDEX" = "0" ]; then python3 {_BENCHMARK}; else true; fi')


def _readiness_check(server: ProbedServer) -> list[str]:
    return _check(server, "readiness", {"vllm-port": str(server.port)})


def _check(server: ProbedServer, what: str, flags: Mapping[str, str]) -> list[str]:
    address = {"leader-address": server.leader_host}
    return in_shell(with_flags(f"{_CHECK} {what}", {**address, **flags}))


def _request(server: ProbedServer, numbers: Mapping[str, int]) -> Body:
    return {"httpGet": {"path": "/health", "port": server.port}, **numbers}


def _command(command: list[str], numbers: Mapping[str, int]) -> Body:
    return {"exec": {"command": command}, **numbers}


# The server of a preset: the facts that its pods are made from besides the specification.

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
