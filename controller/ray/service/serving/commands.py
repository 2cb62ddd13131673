"""A RayService's requests to Ray Serve: to report its state, and to deploy the stored config."""

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
"""The time that one PUT is repeated; after that it is submitted anew."""


LOSS_DELAY: Final = timedelta(seconds=10)
"""The time that applications must be missing until their config is sent anew (`serve shutdown`)."""

CONTROLLER_DELAY: Final = timedelta(seconds=60)
"""The time that Serve's controller must be unreachable before Serve counts as not running.

What is on a cluster of another operator is then no longer known, and the wanted config is stored.
"""


def subscriptions(
    seen: ServiceObservation, settings: ServiceSettings
) -> tuple[ProbeSubscription, ...]:
    """The probe of Serve on each head, and of the proxies that Manta has to ask."""
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


def put_configs(seen: ServiceObservation, now: datetime) -> tuple[HeadCommand, ...]:
    """The PUT of each cluster whose Serve has another config or capacity than the stored one.

    A cluster gets what is stored on it and nothing else. As long as Serve has not reported,
    nothing is sent.
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
    """Since when Serve reports none of the applications whose config it had accepted."""
    state, config = serve_state(cluster), cluster.config
    if not isinstance(cluster.put_outcome, CommandDone) or state is None or config is None:
        return None
    assert cluster.answer is not None
    wanted = config.applications.keys()
    return cluster.answer.since if wanted and not wanted & state.applications.keys() else None


def unreached_since(cluster: ServingCluster) -> datetime | None:
    """Since when Serve has no controller on a cluster on which no config is stored."""
    state = serve_state(cluster)
    if cluster.config is not None or state is None or state.has_controller:
        return None
    return None if cluster.answer is None else cluster.answer.since


def is_applied(seen: ServiceObservation, cluster: ServingCluster) -> bool:
    """Return whether Ray has accepted the stored config, and still has it.

    What Ray reports is not enough: it also contains every config that merely lacks something of
    the one before, such as an application.
    """
    if isinstance(cluster.put_outcome, CommandDone):
        return True
    state, capacity = serve_state(cluster), seen.recorded(cluster.role).get("targetCapacity")
    if state is None or not is_recorded_as_applied(cluster):
        return False
    assert cluster.config is not None
    return judge(state, cluster.config, capacity).deployed


def is_recorded_as_applied(cluster: ServingCluster) -> bool:
    """Return whether the cluster says that its Ray has accepted the stored config."""
    if cluster.cluster is None or cluster.config is None:
        return False
    annotations = cluster.cluster.metadata.annotations or {}
    return annotations.get(labels.SERVE_CONFIG_APPLIED) == cluster.config.hash


def refusal(cluster: ServingCluster) -> str:
    """The reason why Ray refused the stored config; empty if it did not."""
    outcome = cluster.put_outcome
    return outcome.message if isinstance(outcome, CommandRefused) else ""


def reported_config(cluster: ServingCluster) -> dict[str, Any] | None:
    """The config of the applications that Ray reports; None while it has not reported."""
    state = serve_state(cluster)
    if state is None:
        return None
    found = (mapping(each.config) for each in state.applications.values())
    return {"applications": [each for each in found if each]}
