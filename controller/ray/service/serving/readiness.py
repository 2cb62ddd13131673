"""The readiness of a cluster: whether it serves its stored config, and which part is ready.

Only applications of the stored config count; an application that is not listed is not ready, and
an empty list is never ready.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import contains, mapping
from controller.apimachinery.redaction import in_short, last_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.ray.dashboard import ServeApplication, ServeDeployment, ServeState
    from controller.ray.service.stored_config import StoredConfig

_FAILED: Final = frozenset({"DEPLOY_FAILED", "UNHEALTHY"})
_REMEDY: Final = "; correct the application, its image or spec.serveConfigV2"
_DEPLOYING: Final = "DEPLOYING"
_RUNNING: Final = "RUNNING"
_HEALTHY: Final = "HEALTHY"
_FULL: Final = 100


@dataclass(frozen=True, slots=True)
class Readiness:
    """Serve's report about a stored config.

    Attributes:
        serves: whether every application runs.
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
