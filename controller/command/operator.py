"""Assembles the operator from its kinds, clocks and client."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import structlog
from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics

from controller.command.kinds import KindSettings, kinds_of, workspace_lookups
from controller.command.other_operators import OtherOperators
from controller.command.process import identity, wall
from controller.kube.client import Client
from controller.kube.credentials import SERVICE_ACCOUNT, Credentials
from controller.kube.errors import ConfigurationError
from controller.kube.http import HttpTransport
from controller.kube.objects import KubeObject
from controller.kube.resources import CERTIFICATES, SECRETS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, FeatureGates
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.cluster import CertificateCollector, ClusterCollector
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.dashboard.client import Connector
from controller.ray.dashboard.metrics import DashboardCollector, DashboardMetrics
from controller.ray.fleet import FleetCollector
from controller.ray.job import JobCollector
from controller.ray.service import ServiceCollector
from controller.runtime.election import AlwaysLeader, FencedTransport, ThreadedElection
from controller.runtime.kind import Kind
from controller.runtime.metrics import RestClientMetrics
from controller.runtime.operator import Operator
from controller.runtime.settings import HIGHEST_PORT, Settings

_PAGE_REQUESTS = 8
"""Requests for readers of the web page that may be in flight."""

_log = structlog.stdlib.get_logger("manta.operator")

T = TypeVar("T", bound=KubeObject)


class WebhookSettings(Struct, frozen=True):
    """What the environment says of the admission webhook.

    The operator makes the certificate for the Service in its own namespace; without a Service it is
    mounted in the folder as `tls.crt` and `tls.key`: as for KubeRay's.
    """

    port: int = 9443
    service: str = ""
    namespace: str = ""
    folder: Path = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT
    ) -> WebhookSettings | None:
        """Read KubeRay's variable and two of our own; None if there shall be no webhook.

        Raises:
            ConfigurationError: one cannot be used; the message names it.
        """
        if environment.get("ENABLE_WEBHOOKS", "").lower() != "true":
            return None
        port = environment.get("MANTA_WEBHOOK_PORT", "9443")
        if not (port.isdecimal() and 0 < int(port) <= HIGHEST_PORT):
            raise ConfigurationError(f"MANTA_WEBHOOK_PORT: {port!r} is no port from 1 to 65535")
        service = environment.get("MANTA_WEBHOOK_SERVICE", "")
        try:
            namespace = (account / "namespace").read_text().strip() if service else ""
        except OSError as error:
            raise ConfigurationError(
                "MANTA_WEBHOOK_SERVICE: this process does not run in a pod, so that no Service "
                f"leads to it; unset the variable, and put a certificate into {cls.folder}"
            ) from error
        return cls(int(port), service, namespace)


@asynccontextmanager
async def operator_for(
    credentials: Credentials,
    settings: Settings,
    *,
    user_agent: str,
    kind_settings: KindSettings | None = None,
    use_proxy: bool = True,
    own_pod: str | None = None,
    elect: Callable[[CollectorRegistry], ThreadedElection] | None = None,
    lease_in: str = "",
    registry: CollectorRegistry | None = None,
    webhook: WebhookSettings | None = None,
) -> AsyncGenerator[Operator]:
    """Yield the operator with every kind that Manta serves; its connections end on exit.

    Without settings of the kinds this process's environment decides. `use_proxy` reaches Ray's
    dashboards through the API server. `own_pod` is empty outside a cluster, and None skips the
    search for other operators; those in the namespace `lease_in` stand by for each other.
    """
    settings = replace(settings, identity=settings.identity or identity())
    registry = registry or CollectorRegistry()
    election = elect(registry) if elect is not None else AlwaysLeader()
    transport, client = connect(
        credentials, settings, user_agent=user_agent, election=election, registry=registry
    )
    decided = kind_settings or KindSettings.from_environment()
    report_gates(decided.ray.feature_gates, registry)
    for name, reason in decided.without_effect.items():
        _log.warning("variable.without_effect", variable=name, reason=reason)
    connector = Connector(client, proxied=use_proxy, cluster_domain=decided.ray.cluster_domain)
    dashboards = _dashboards(connector, election, registry)
    operator = _operator(
        client, decided, settings, dashboards=dashboards, election=election, registry=registry
    )
    if webhook is not None:
        _add_webhook(operator, webhook, transport, decided)
    if settings.page_port:
        _add_page(operator, settings.page_port, transport)
    looking: list[asyncio.Task[None]] = []
    if own_pod is not None:
        others = OtherOperators(
            client,
            settings.namespaces,
            own_pod=own_pod,
            lease_in=lease_in,
            workspaces=decided.kaito is not None,
            instance=settings.identity,
            reporters=operator.controllers,
            leads_since=lambda: operator.expectations.reader.clock_steady_since,
            wall=wall,
            registry=registry,
        )
        looking.append(asyncio.create_task(others.run(), name="other operators"))
    try:
        yield operator
    finally:
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        await dashboards.aclose()
        await connector.aclose()
        await transport.aclose()


def _add_webhook(
    operator: Operator, settings: WebhookSettings, transport: HttpTransport, decided: KindSettings
) -> None:
    from controller.command import webhook  # noqa: PLC0415  brings cryptography

    if settings.service:
        # Not fenced: replicas that do not lead answer, too, and the first that starts makes it.
        client = Client(transport, user_agent="", clock=asyncio.get_running_loop())
        source = webhook.OwnCertificate(client, settings.namespace, settings.service, wall)
    else:
        source = webhook.MountedCertificate(settings.folder)
    server = webhook.WebhookServer(settings.port, kinds_of(decided, None), source, wall)
    operator.add_server(server)
    operator.health.add_readiness("webhook", server.unready)


def _add_page(operator: Operator, port: int, transport: HttpTransport) -> None:
    from controller.command.status.page_server import PageServer, Reviewed  # noqa: PLC0415
    from controller.command.status.reading import (  # noqa: PLC0415
        CACHED_CHILDREN,
        KINDS,
        Seen,
        within,
    )

    # Not fenced: replicas that do not lead answer, too.
    loop = asyncio.get_running_loop()
    client = Client(transport, user_agent="", clock=loop, concurrency=_PAGE_REQUESTS)

    def read(namespace: str) -> Seen:
        problem = operator.caches.unready()
        seen = Seen(missing=[f"what is new: {problem}"] if problem else [])
        watched = {cache.scope.resource for cache in operator.caches.caches}
        for resource in (each for each in (*KINDS, *CACHED_CHILDREN) if each in watched):
            seen.found[resource] = within(namespace, resource, _cached(operator, resource))
        return seen

    access = Reviewed(client, loop.time)
    option = "--page-port (of /manager: -page-port)"
    server = PageServer(port, read=read, client=client, access=access, wall=wall, option=option)
    operator.add_server(server)


def connect(
    credentials: Credentials,
    settings: Settings,
    *,
    user_agent: str,
    election: ThreadedElection | AlwaysLeader,
    registry: CollectorRegistry,
) -> tuple[HttpTransport, Client]:
    """Return the client of an operator, and its connections, which the caller closes."""
    disable_created_metrics()  # series that upstream does not have
    metrics = RestClientMetrics(registry).for_host(credentials.endpoint.host)
    transport = HttpTransport(credentials, user_agent=user_agent, metrics=metrics)
    client = Client(
        transport if isinstance(election, AlwaysLeader) else FencedTransport(transport, election),
        user_agent=user_agent,
        clock=asyncio.get_running_loop(),
        concurrency=settings.client_concurrency,
        qps=settings.qps,
        burst=settings.burst,
        metrics=metrics,
    )
    return transport, client


def _dashboards(
    connector: Connector, election: ThreadedElection | AlwaysLeader, registry: CollectorRegistry
) -> DashboardActors:
    dashboards = DashboardActors(
        connector,
        clock=asyncio.get_running_loop(),
        wall=wall,
        rng=random.Random(),
        fence=election,
        metrics=DashboardMetrics(registry),
    )
    registry.register(DashboardCollector(dashboards.statistics))
    return dashboards


def _operator(
    client: Client,
    decided: KindSettings,
    settings: Settings,
    *,
    dashboards: DashboardActors,
    election: ThreadedElection | AlwaysLeader,
    registry: CollectorRegistry,
) -> Operator:
    """Return the operator with its kinds, checks, sections of the debug page and metrics."""
    lookups = workspace_lookups(decided, client, asyncio.get_running_loop())
    kinds = kinds_of(decided, dashboards, lookups)
    operator = assembled(client, kinds, settings, election, registry, on_synced=_freeze)
    if decided.kaito is not None:
        collect_orphans(operator, client, settings.namespaces)
        _collect_workspaces(operator, registry)
    operator.debug.add("leader", election.snapshot)
    operator.debug.add("probes", dashboards.snapshot)
    collect_objects(operator, registry, wall)
    return operator


def assembled(
    client: Client,
    kinds: Sequence[Kind[Any]],
    settings: Settings,
    election: ThreadedElection | AlwaysLeader,
    registry: CollectorRegistry,
    *,
    on_synced: Callable[[], None] | None = None,
) -> Operator:
    """Return an operator of these kinds; it is not ready while another process leads."""
    elected = election if isinstance(election, ThreadedElection) else None
    operator = Operator(
        client,
        kinds,
        settings,
        clock=asyncio.get_running_loop(),
        wall=wall,
        rng=random.Random(),
        registry=registry,
        election=elected,
        on_synced=on_synced,
    )
    if elected is not None:
        operator.health.add_readiness("leader election", elected.standby_problem)
    return operator


def collect_objects(
    operator: Operator, registry: CollectorRegistry, wall: Callable[[], datetime]
) -> None:
    """Register the metrics of the cached objects of Ray's kinds."""
    registry.register(ClusterCollector(lambda: _cached(operator, RAYCLUSTERS)))
    registry.register(
        CertificateCollector(
            lambda: chain(_cached(operator, CERTIFICATES), _cached(operator, SECRETS))
        )
    )
    registry.register(JobCollector(lambda: _cached(operator, RAYJOBS)))
    registry.register(ServiceCollector(lambda: _cached(operator, RAYSERVICES), wall))
    registry.register(FleetCollector(lambda: _cached(operator, RAYCLUSTERFLEETS)))


def collect_orphans(operator: Operator, client: Client, namespaces: Sequence[str]) -> None:
    """Add the collector of NodeClaims and NodePools whose Workspace is gone."""
    from controller.kaito.workspace.kind import OrphanCollector  # noqa: PLC0415

    reads, keys = operator.expectations.reader, operator.caches.keys
    record = operator.recorder.record
    operator.add_writer(OrphanCollector(client, reads, keys, record, namespaces))


def _collect_workspaces(operator: Operator, registry: CollectorRegistry) -> None:
    # only where Workspaces are served
    from controller.kaito.api.inferenceset import INFERENCE_SETS  # noqa: PLC0415
    from controller.kaito.api.status import (  # noqa: PLC0415
        InferenceSetCollector,
        WorkspaceCollector,
    )
    from controller.kaito.api.workspace import WORKSPACES  # noqa: PLC0415

    registry.register(WorkspaceCollector(lambda: _cached(operator, WORKSPACES)))
    registry.register(InferenceSetCollector(lambda: _cached(operator, INFERENCE_SETS)))


def report_gates(gates: FeatureGates, registry: CollectorRegistry) -> None:
    """Log a warning and set `manta_feature_gate_without_effect` for each such gate."""
    metric = Gauge(
        "manta_feature_gate_without_effect",
        "1 for each feature gate that was set to a value which changes nothing",
        ("name",),
        registry=registry,
    )
    for name, reason in gates.without_effect().items():
        _log.warning("feature_gate.without_effect", gate=name, reason=reason)
        metric.labels(name).set(1)


def _freeze() -> None:
    """Exclude the filled caches from garbage collections, which would pause the event loop.

    What comes later is collected seldom: nearly all of it is freed by counting references, and
    Python's own thresholds cost a twentieth of the processor time while 100 clusters came up.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _cached(operator: Operator, resource: Resource[T]) -> Iterator[T]:
    """Yield all cached objects of one resource, of all watched namespaces."""
    for cache in operator.caches.caches:
        if cache.scope.resource is resource:
            yield from cache.informer.lister.list()
