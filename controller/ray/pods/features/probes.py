"""Liveness and readiness probes of Ray containers, by role and Ray version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.ray.api.fields.version import HTTP_PROBES_SINCE, is_at_least
from controller.ray.api.ports import AGENT_PORT, DASHBOARD_PORT
from controller.ray.pods.start_command import Role, port_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.pods.draft import PodDraft

Probe = dict[str, Any]

_SERVE_PORT: Final = 8000
_TIMEOUT: Final[Mapping[Role, int]] = {"head": 5, "worker": 2}
_LIVENESS_FAILURES: Final = 120
_READINESS_FAILURES: Final = 10


def add_probes(draft: PodDraft, *, ray_version: str, serving: bool) -> None:
    """Add the probes that the user has not defined to the Ray container.

    Args:
        draft: changed in place.
        ray_version: selects HTTP probes or `wget`.
        serving: whether the cluster belongs to a RayService, whose workers are ready only when
            their Serve proxy is.
    """
    role, container, parameters = draft.role, draft.ray, draft.parameters
    liveness = _liveness_check(role, parameters, ray_version)
    readiness, failures = liveness, _READINESS_FAILURES
    if serving and role == "worker":
        readiness, failures = _exec([_raylet(parameters), _serve_proxy(container)]), 1
    if "livenessProbe" not in container:
        container["livenessProbe"] = _probe(liveness, role, 30, _LIVENESS_FAILURES)
    if "readinessProbe" not in container:
        container["readinessProbe"] = _probe(readiness, role, 10, failures)


def _probe(check: Probe, role: Role, initial_delay: int, failures: int) -> Probe:
    return {
        **check,
        "initialDelaySeconds": initial_delay,
        "timeoutSeconds": _TIMEOUT[role],
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _liveness_check(role: Role, parameters: Mapping[str, str], ray_version: str) -> Probe:
    if is_at_least(ray_version, HTTP_PROBES_SINCE):
        return {"httpGet": {"path": "/api/healthz", "port": _agent_port(parameters)}}
    checks = [_raylet(parameters)]
    if role == "head":
        port = port_of(parameters, "dashboard-port", DASHBOARD_PORT)
        checks.append(_wget(port, "api/gcs_healthz", timeout=10))
    return _exec(checks)


def _agent_port(parameters: Mapping[str, str]) -> int:
    return port_of(parameters, "dashboard-agent-listen-port", AGENT_PORT)


def _raylet(parameters: Mapping[str, str]) -> str:
    return _wget(_agent_port(parameters), "api/local_raylet_healthz", timeout=2)


def _serve_proxy(container: Mapping[str, Any]) -> str:
    ports = {port.get("name"): port["containerPort"] for port in container.get("ports", ())}
    return _wget(ports.get("serve", _SERVE_PORT), "-/healthz", timeout=10)


def _wget(port: int, path: str, *, timeout: int) -> str:
    url = f"http://localhost:{port}/{path}"
    return f"wget --tries 1 -T {timeout} -q -O- {url} | grep success"


def _exec(checks: list[str]) -> Probe:
    return {"exec": {"command": ["bash", "-c", " && ".join(checks)]}}
