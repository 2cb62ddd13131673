"""The assumptions of `manta plan` about Ray, which it does not contact.

Serve runs what is stored on its cluster, at the capacity that the status asks for, and the proxy
on every ready pod takes requests.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from controller.ray.api.pod_state import is_ready
from controller.ray.dashboard import (
    CommandDone,
    ProbeObservation,
    ProxyHealth,
    ServeApplication,
    ServeConfigAccepted,
    ServeDeployment,
    ServeState,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.service.observation import ServingCluster

_SINCE = datetime(1970, 1, 1, tzinfo=UTC)


def with_assumed_serve(found: ServingCluster, recorded: Mapping[str, Any]) -> ServingCluster:
    """Return the cluster with an obedient Serve; nothing is known without a stored config.

    Args:
        found: the cluster with its head and pods.
        recorded: the status's record of the cluster.
    """
    if found.head is None or found.config is None:
        return found
    applications = {
        name: ServeApplication(
            "RUNNING",
            deployments={"all": ServeDeployment("HEALTHY", target=1, running=1)},
            config=config,
        )
        for name, config in found.config.applications.items()
    }
    state = ServeState(applications, target_capacity=recorded.get("targetCapacity"))
    proxies = {
        pod.metadata.uid: _observation(ProxyHealth(healthy=True))
        for pod in found.pods
        if is_ready(pod)
    }
    done = CommandDone(ServeConfigAccepted())
    return replace(found, answer=_observation(state), put_outcome=done, proxies=proxies)


def _observation(value: ServeState | ProxyHealth) -> ProbeObservation:
    return ProbeObservation(value, _SINCE)
