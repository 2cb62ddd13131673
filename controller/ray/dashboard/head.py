"""One incarnation of a head, as an address of its dashboard or of the Serve proxy beside it."""

from __future__ import annotations

from dataclasses import dataclass

from controller.ray.api.ports import DASHBOARD_PORT


@dataclass(frozen=True, slots=True)
class Head:
    """The dashboard of one head incarnation.

    A head that was replaced, or restarted in place, is another `Head`: nothing known of the former
    one applies to it.

    Attributes:
        cluster_uid: uid of the RayCluster.
        pod_uid: uid of its head pod.
        restarts: restarts of the Ray container in that pod.
        namespace: namespace of the cluster.
        service: name of the head service.
        port: port of the dashboard at that service.
        token_secret: name of the Secret with the token; empty if the cluster needs none.
    """

    cluster_uid: str
    pod_uid: str
    restarts: int
    namespace: str
    service: str
    port: int = DASHBOARD_PORT
    token_secret: str = ""

    def __str__(self) -> str:
        """Return a text for messages: `namespace/service:port`."""
        return f"{self.namespace}/{self.service}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeProxy(Head):
    """The Serve proxy on a head pod, addressed at the pod itself and never given the token.

    It has an actor of its own, so that an unresponsive proxy delays nothing else.

    Attributes:
        pod: name of the pod.
        address: its IP address.
    """

    pod: str
    address: str

    def __str__(self) -> str:
        """Return a text for messages: `namespace/pod:port`."""
        return f"{self.namespace}/{self.pod}:{self.port}"
