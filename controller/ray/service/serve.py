"""The Serve config of each cluster: when it is sent, and whether its applications are ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, cast

from msgspec import Struct

from controller.apimachinery.custom_object import contains, mapping
from controller.apimachinery.redaction import in_short, last_error
from controller.ray.api import labels
from controller.ray.dashboard.commands import (
    CommandDone,
    CommandRefused,
    HeadCommand,
    PutServeConfig,
)
from controller.ray.dashboard.probes import ProbeSubscription, ProxyProbe, ServeProbe
from controller.ray.dashboard.serve import ServeApplication, ServeDeployment, ServeState
from controller.ray.service.identity import StoredConfig
from controller.ray.service.observation import ServiceObservation, ServingCluster
from controller.ray.service.proxies import gated_pods, proxy_on, serve_state

# The readiness of a cluster: whether it serves its stored config, and which part is ready.
#
# Only applications of the stored config count; an application that is not listed is not ready, and
# an empty list is never ready.

_FAILED: Final = frozenset({"DEPLOY_FAILED", "UNHEALTHY"})
_REMEDY: Final = "; correct the application, its image or spec.serveConfigV2"
_DEPLOYING: Final = "DEPLOYING"
_RUNNING: Final = "RUNNING"
_HEALTHY: Final = "HEALTHY"
_FULL: Final = 100


class Readiness(Struct, frozen=True):
    """Serve's report about a stored config.

    Attributes:
        ready: percent of the full size whose replicas run.
        deployed: whether Ray has this config, with this capacity.
        first_cause: a sentence about why it does not serve; empty if it does.
    """

    serves: bool
    ready: int
    deployed: bool
    first_cause: str = ""


def judge(state: ServeState, config: StoredConfig, capacity: int | None) -> Readiness:
    """Compare Serve's report with the stored config.

    Args:
        state: Serve's report.
        config: the config stored on the cluster.
        capacity: the wanted target capacity in percent; None for a cluster that has none.
    """
    wanted = config.applications
    found = {name: state.applications.get(name) for name in wanted}
    deployed = state.target_capacity == capacity and all(
        each is not None and is_deployed(wanted[name], each) for name, each in found.items()
    )
    cause = next(_causes(found), "") if wanted else "the config has no application"
    return Readiness(
        serves=not cause and deployed,
        ready=_ready(state, found, wanted),
        deployed=deployed,
        first_cause=cause or ("" if deployed else "Ray has another config or capacity"),
    )


def readiness_of(cluster: ServingCluster) -> Readiness | None:
    """Return Serve's report about the stored config; None if it has not reported."""
    state = serve_state(cluster)
    if cluster.config is None or state is None:
        return None
    return judge(state, cluster.config, cluster.capacity)


def is_deployed(wanted: Mapping[str, Any], application: ServeApplication) -> bool:
    """Return whether Ray runs this config, ignoring defaults that Ray adds to it."""
    return application.config is not None and contains(application.config, wanted)


def _causes(found: Mapping[str, ServeApplication | None]) -> Iterator[str]:
    """Yield the causes why applications do not run: failures, then those that take time."""
    missing = [name for name, each in found.items() if each is None]
    others = [(name, each) for name, each in found.items() if each is not None]
    others = [(name, each) for name, each in others if each.status != _RUNNING]
    for name, each in sorted(others, key=lambda item: item[1].status == _DEPLOYING):
        remedy = _REMEDY if each.status in _FAILED else ""
        yield f"application {name} is {each.status}{_detail(each)}{remedy}"
    for name in missing:
        yield f"Ray does not list application {name}"


def _detail(application: ServeApplication) -> str:
    """Return the error of its first deployment that failed, and what the application says.

    Of such a deployment the application only says that it failed, and lists its name.
    """
    said = f": {in_short(application.message).rstrip('.')}" if application.message else ""
    others = [item for item in application.deployments.items() if item[1].status != _HEALTHY]
    others.sort(key=lambda item: item[1].status not in _FAILED)
    for name, each in others:
        if each.status in _FAILED and each.message:
            cause = f": deployment {name} is {each.status}: {last_error(each.message)}"
            return cause if repr(name) in application.message else f"{said}{cause}"
        if not said:
            return f": deployment {name} is {each.status}, {each.running} of {each.target} replicas"
    return said


def _ready(
    state: ServeState,
    found: Mapping[str, ServeApplication | None],
    wanted: Mapping[str, Mapping[str, Any]],
) -> int:
    """Return the running percentage of the full size, of the deployment with the least."""
    if not found or any(each is None for each in found.values()):
        return 0
    capacity = _FULL if state.target_capacity is None else state.target_capacity
    shares = [
        _served_capacity(deployment, capacity, _full_size(wanted[application], name))
        for application, each in found.items()
        if each is not None
        for name, deployment in each.deployments.items()
    ]
    return int(min(shares)) if shares else 0


def _served_capacity(found: ServeDeployment, capacity: float, full: int | None) -> float:
    """Return the largest capacity for which so many replicas suffice, as Ray rounds.

    Ray rounds the share of the replicas to the nearest number. A simple quotient would therefore
    fall whenever the capacity rises, and requests would leave replicas that run.

    Args:
        found: the deployment.
        capacity: the capacity for which Ray has chosen its target.
        full: its number of replicas at 100 %; None if the config sets none.
    """
    if found.target == 0:
        return capacity if found.status == _HEALTHY else 0.0
    if found.running >= found.target:
        return capacity
    if found.running == 0:
        return 0.0
    rounded = found.running + 0.5
    most = rounded * _FULL / full if full else rounded * capacity / found.target
    return min(capacity, most)


def _full_size(application: Mapping[str, Any], deployment: str) -> int | None:
    """Return the number of replicas that the config gives a deployment; None if none."""
    listed = application.get("deployments")
    for each in map(mapping, cast("list[Any]", listed) if isinstance(listed, list) else ()):
        number = each.get("num_replicas")
        if each.get("name") == deployment and isinstance(number, int) and number > 0:
            return number
    return None


# A RayService's use of Ray Serve: to read its state, and to deploy the stored config.

PUT_PATIENCE: Final = timedelta(minutes=5)
"""Time for which one PUT is repeated; after that it is submitted anew."""


LOSS_DELAY: Final = timedelta(seconds=10)
"""Time for which applications must be missing before their config is sent anew."""

CONTROLLER_DELAY: Final = timedelta(seconds=60)
"""Time for which Serve's controller must be unreachable before Serve counts as not running.

The config of another operator's cluster is then unknown, and the wanted config is stored.
"""


def subscriptions(seen: ServiceObservation) -> tuple[ProbeSubscription, ...]:
    """Return the probes of Serve on each head, and of the proxies that Manta has to probe.

    Without a probe of its head, the result of closing a cluster's connections would be lost.
    """
    found: list[ProbeSubscription] = []
    for each in seen.clusters:
        if each.head is None or each.head.terminating:
            continue
        found.append(ProbeSubscription(each.head.dashboard, ServeProbe()))
        pods = gated_pods(each, seen.settings)
        proxies = (proxy_on(each, pod) for pod in pods)
        found += (ProbeSubscription(proxy, ProxyProbe()) for proxy in proxies if proxy is not None)
    return (*found, *(ProbeSubscription(each.head, ServeProbe()) for each in seen.closings))


def put_configs(seen: ServiceObservation) -> tuple[HeadCommand, ...]:
    """Return a PUT for each cluster whose Serve lacks the stored config or capacity.

    A cluster gets only the config that is stored on it. Nothing is sent before Serve has reported.
    """
    commands: list[HeadCommand] = []
    for each in seen.clusters:
        if each.head is None or each.head.terminating or each.config is None:
            continue
        lost = lost_since(each)
        if lost is None and (each.put_outcome is not None or is_applied(each)):
            continue
        if serve_state(each) is None or (lost is not None and seen.now < lost + LOSS_DELAY):
            continue
        body = each.config.request(each.capacity)
        command = PutServeConfig(each.put_id, seen.now + PUT_PATIENCE, body)
        commands.append(HeadCommand(each.head.dashboard, command))
    return tuple(commands)


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


def is_applied(cluster: ServingCluster) -> bool:
    """Return whether Ray has accepted the stored config, and still has it.

    Ray's report alone is not enough: it also contains any config that only lacks something of the
    previous one, such as an application.
    """
    if isinstance(cluster.put_outcome, CommandDone):
        return True
    readiness = readiness_of(cluster)
    return readiness is not None and readiness.deployed and is_recorded_as_applied(cluster)


def is_recorded_as_applied(cluster: ServingCluster) -> bool:
    """Return whether the cluster records that its Ray has accepted the stored config."""
    applied = cluster.annotations.get(labels.SERVE_CONFIG_APPLIED)
    return cluster.config is not None and applied == cluster.config.hash


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
