"""Probes of model servers.

The startup probe allows for the model's whole start; the other probes begin after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.kaito.presets import RAY_PORT, in_shell, startup_seconds, with_flags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.presets import Model
    from controller.kaito.workloads.pods.pod_parts import Body

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
