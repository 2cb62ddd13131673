"""The nodes of an embedded cluster whose pods are simulated: kubelet, Rays and Gateways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.gateway.controller import GatewayController
from controller.devcluster.gateway.publishing import SimulatedListeners
from controller.devcluster.logs import SimulatedLogs
from controller.devcluster.nodes import SimulatedKubelet
from controller.devcluster.processes.references import References
from controller.devcluster.rays.pods import SimulatedRays

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from controller.devcluster.apiserver import ApiServer
    from controller.devcluster.nodes.components import ComponentContext


def simulated_kubelet(
    server: ApiServer, wall: Callable[[], datetime]
) -> Callable[[ComponentContext], SimulatedKubelet]:
    """Return a factory of the kubelet; attach logs and simulated Rays to the API server.

    Args:
        server: asks for logs, and forwards requests to pods and services.
        wall: returns the time in UTC.
    """
    rays = SimulatedRays(server, wall)
    server.hooks.pod_log = SimulatedLogs(server)
    server.hooks.pod_proxy = rays.pod_proxy
    server.hooks.service_proxy = rays.service_proxy
    return lambda context: SimulatedKubelet(context, rays, References(context))


def simulated_gateways(context: ComponentContext) -> GatewayController:
    """Return a controller for the Gateways of all classes that nobody else has."""
    return GatewayController(context, SimulatedListeners(), any_class=True)
