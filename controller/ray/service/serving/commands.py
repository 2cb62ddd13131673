"""A RayService's use of Ray Serve: to read its state, and to deploy the stored config."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.ray.api import labels
from controller.ray.dashboard import (
    CommandDone,
    CommandRefused,
    HeadCommand,
    ProbeSubscription,
    ProxyProbe,
    PutServeConfig,
    ServeProbe,
)
from controller.ray.service.serving.proxies import gated_pods, proxy_on, serve_state
from controller.ray.service.serving.readiness import judge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.service.observation import ServiceObservation, ServingCluster
    from controller.ray.service.settings import ServiceSettings

PUT_PATIENCE: Final = timedelta(minutes=5)
"""Time for which one PUT is repeated; after that it is submitted anew."""


LOSS_DELAY: Final = timedelta(seconds=10)
"""Time for which applications must be missing before their config is sent anew."""

CONTROLLER_DELAY: Final = timedelta(seconds=60)
"""Time for which Serve's controller must be unreachable before Serve counts as not running.

The config of another operator's cluster is then unknown, and the wanted config is stored.
"""


def subscriptions(
    seen: ServiceObservation, settings: ServiceSettings
) -> tuple[ProbeSubscription, ...]:
    """Return the probes of Serve on each head, and of the proxies that Manta has to probe.

    Without a probe of its head, the result of closing a cluster's connections would be lost.
    """
    return tuple(_subscriptions(seen, settings))


def _subscriptions(
    seen: ServiceObservation, settings: ServiceSettings
) -> Iterator[ProbeSubscription]:
    for each in seen.clusters:
        if each.head is None or each.head.terminating:
            continue
        yield ProbeSubscription(each.head.dashboard, ServeProbe())
        for pod in gated_pods(each, settings, excludes_head=seen.excludes_head):
            if (proxy := proxy_on(each, pod)) is not None:
                yield ProbeSubscription(proxy, ProxyProbe())
    for closing in seen.closings:
        yield ProbeSubscription(closing.head, ServeProbe())


def put_configs(seen: ServiceObservation, now: datetime) -> tuple[HeadCommand, ...]:
    """Return a PUT for each cluster whose Serve lacks the stored config or capacity.

    A cluster gets only the config that is stored on it. Nothing is sent before Serve has reported.
    """
    return tuple(_due(seen, now))


def _due(seen: ServiceObservation, now: datetime) -> Iterator[HeadCommand]:
    for each in seen.clusters:
        if each.head is None or each.head.terminating or each.config is None:
            continue
        lost = lost_since(each)
        if lost is None and (each.put_outcome is not None or is_applied(seen, each)):
            continue
        if serve_state(each) is None or (lost is not None and now < lost + LOSS_DELAY):
            continue
        body = each.config.request(seen.recorded(each.role).get("targetCapacity"))
        command = PutServeConfig(each.put_id, now + PUT_PATIENCE, body)
        yield HeadCommand(each.head.dashboard, command)


def lost_since(cluster: ServingCluster) -> datetime | None:
    """Return since when Serve reports none of the applications whose config it had accepted."""
    state, config = serve_state(cluster), cluster.config
    if not isinstance(cluster.put_outcome, CommandDone) or state is None or config is None:
        return None
    assert cluster.answer is not None
    wanted = config.applications.keys()
    return cluster.answer.since if wanted and not wanted & state.applications.keys() else None


def unreached_since(cluster: ServingCluster) -> datetime | None:
    """Return since when Serve has no controller, on a cluster without a stored config."""
    state = serve_state(cluster)
    if cluster.config is not None or state is None or state.has_controller:
        return None
    return None if cluster.answer is None else cluster.answer.since


def is_applied(seen: ServiceObservation, cluster: ServingCluster) -> bool:
    """Return whether Ray has accepted the stored config, and still has it.

    Ray's report alone is not enough: it also contains any config that only lacks something of the
    previous one, such as an application.
    """
    if isinstance(cluster.put_outcome, CommandDone):
        return True
    state, capacity = serve_state(cluster), seen.recorded(cluster.role).get("targetCapacity")
    if state is None or not is_recorded_as_applied(cluster):
        return False
    assert cluster.config is not None
    return judge(state, cluster.config, capacity).deployed


def is_recorded_as_applied(cluster: ServingCluster) -> bool:
    """Return whether the cluster records that its Ray has accepted the stored config."""
    if cluster.cluster is None or cluster.config is None:
        return False
    annotations = cluster.cluster.metadata.annotations or {}
    return annotations.get(labels.SERVE_CONFIG_APPLIED) == cluster.config.hash


def refusal(cluster: ServingCluster) -> str:
    """Return why Ray refused the stored config; empty if it did not."""
    outcome = cluster.put_outcome
    return outcome.message if isinstance(outcome, CommandRefused) else ""


def reported_config(cluster: ServingCluster) -> dict[str, Any] | None:
    """Return the config of the applications that Ray reports; None before its report."""
    state = serve_state(cluster)
    if state is None:
        return None
    found = (mapping(each.config) for each in state.applications.values())
    return {"applications": [each for each in found if each]}
