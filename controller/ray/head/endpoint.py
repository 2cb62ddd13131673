"""The head to which the services, routes and grants of a cluster lead: the one that exists.

A template may be edited while its head keeps running as it was created. What points to the head
follows the pod, and the new template once a head of it exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.api import labels
from controller.ray.api.pod_state import is_ready, ray_container, ray_status
from controller.ray.api.ports import DASHBOARD_PORT, GCS_PORT, METRICS_PORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.kube.objects import Pod
    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.head.identity import Identity

_DEFAULT_PORTS: Final = {
    "client": 10001,
    "gcs-server": GCS_PORT,
    "dashboard": DASHBOARD_PORT,
    "metrics": METRICS_PORT,
    "serve": 8000,
}
_ADDED: Final = {"metrics": METRICS_PORT}
"""The port that every head gets."""
_FIXED: Final = (labels.CLUSTER, labels.NODE_TYPE)
"""Labels without which a selector would find pods of another cluster or role."""
_CHANGEABLE: Final = (labels.IDENTIFIER, labels.APP_NAME, labels.CREATED_BY)
_OVER: Final = frozenset({"Failed", "Succeeded"})
AUTOSCALER: Final = "autoscaler"
"""Name of the container of Ray's autoscaler in a head."""


@dataclass(frozen=True, slots=True)
class HeadEndpoint:
    """What others need to know of a head in order to point to it.

    Attributes:
        selector: the labels by which a service selects it.
        ports: numbers of its ports by name.
        service_accounts: the accounts with which its autoscaler may run.
    """

    selector: Mapping[str, str]
    ports: Mapping[str, int]
    service_accounts: tuple[str, ...]

    @property
    def dashboard_port(self) -> int:
        """The port of the dashboard."""
        return self.ports.get("dashboard", DASHBOARD_PORT)

    @property
    def serve_ports(self) -> dict[str, int]:
        """The ports for Ray Serve, by name."""
        return serve_ports(self.ports)


def head_endpoint(spec: ClusterSpec, identity: Identity, pods: Iterable[Pod]) -> HeadEndpoint:
    """Return the endpoint of the head among these pods; that of a new head if there is none."""
    heads = tuple(pods)
    head = chosen_head(heads)
    given = identity.labels_of(labels.HEAD, labels.HEAD_GROUP, spec.head_group_spec)
    found = given if head is None else head.metadata.labels or {}
    selector = {key: given[key] for key in _FIXED}
    accounts = {pod.spec.service_account_name for pod in heads if _has_autoscaler(pod)}
    return HeadEndpoint(
        selector | {key: found[key] for key in _CHANGEABLE if key in found},
        _ports_of(head, template_ports(spec)),
        tuple(sorted({identity.service_account, *accounts} - {""})),
    )


def head_ports(spec: ClusterSpec, pods: Iterable[Pod]) -> dict[str, int]:
    """Return the ports of the head among these pods; those of a new head if there is none."""
    return _ports_of(chosen_head(pods), template_ports(spec))


def serve_ports(ports: Mapping[str, int]) -> dict[str, int]:
    """Return those of a head's ports that are for Ray Serve."""
    return {
        name: number
        for name, number in ports.items()
        if name == "serve" or name.startswith("serve-")
    }


def template_ports(spec: ClusterSpec) -> dict[str, int]:
    """Return the ports of a new head: those of its Ray container, or Ray's defaults."""
    declared: dict[str, int] = {
        port.get("name") or _nameless(port["containerPort"]): port["containerPort"]
        for port in spec.head_group_spec.template["spec"]["containers"][0].get("ports", ())
    }
    ports = declared or dict(_DEFAULT_PORTS)
    ports.setdefault("metrics", METRICS_PORT)
    return ports


def _ports_of(head: Pod | None, wanted: dict[str, int]) -> dict[str, int]:
    """Return the ports of the head, and those that only the template names.

    Ray listens whether a port is declared or not, so that a declaration that was forgotten helps
    at once.
    """
    container = ray_container(head) if head is not None else None
    declared = {
        port.name or _nameless(port.container_port): port.container_port
        for port in (container.ports if container is not None else ())
    }
    if declared == _ADDED:  # all that a head has if its template declares none
        declared = wanted if wanted == _ADDED else dict(_DEFAULT_PORTS)
    taken = set(declared.values())
    return declared | {
        name: number
        for name, number in wanted.items()
        if name not in declared and number not in taken
    }


def _nameless(number: int) -> str:
    return f"{number}-port"


def _has_autoscaler(pod: Pod) -> bool:
    return any(container.name == AUTOSCALER for container in pod.spec.containers)


def chosen_head(heads: Iterable[Pod]) -> Pod | None:
    """Return the head of a cluster, while several exist; every part of Manta means this one."""
    return min(heads, key=_preference, default=None)


def has_ended(head: Pod) -> bool:
    """Return whether the Ray container has ended and has not been restarted yet."""
    status = ray_status(head)
    if head.status.phase in _OVER or status is None:
        return head.status.phase in _OVER
    has_run = status.last_state.terminated is not None
    return status.state.terminated is not None or (status.state.waiting is not None and has_run)


def _preference(head: Pod) -> tuple[bool, bool, bool, str, str]:
    """Order heads: one that stays first, then one whose Ray runs, that is ready, the oldest."""
    meta, unready = head.metadata, not is_ready(head)
    return meta.terminating, has_ended(head), unready, meta.creation_timestamp or "", meta.name
