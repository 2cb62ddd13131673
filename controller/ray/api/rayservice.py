"""RayService: the cached view and its typed specification.

As in `raycluster`, the cached object keeps plain data, and `parse_service_spec` raises the errors.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import FieldReader, mapping, only, parse, read_conditions
from controller.apimachinery.schedule import InvalidDuration, read_duration
from controller.kube.objects import View
from controller.kube.resources import Resource
from controller.ray.api import labels
from controller.ray.api.names import RayObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


_PERCENTAGES: Final = ("targetCapacity", "trafficRoutedPercent")
_STATE_FIELDS: Final = {
    "applicationStatuses": only(dict),
    "lastTrafficMigratedTime": only(str),
    "rayClusterName": only(str),
    "rayClusterStatus": only(dict),
}


def _cluster_state(usual: int) -> FieldReader:
    """Return a reader of the state of a cluster in the status, without malformed parts.

    A malformed percentage counts as `usual`, because its presence determines how the cluster is
    upgraded.
    """

    def read(value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        state = mapping(value)
        read = {name: _percent(state[name], usual) for name in _PERCENTAGES if name in state}
        for name, reader in _STATE_FIELDS.items():
            found = reader(state.get(name))
            if found is not None:
                read[name] = found
        return read

    return read


def _percent(value: Any, usual: int) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool)
    return min(max(value, 0), 100) if fits else usual


class RayService(RayObject, frozen=True, gc=True, weakref=True):
    """A cached RayService."""

    status_fields: ClassVar = {
        "activeServiceStatus": _cluster_state(usual=100),
        "conditions": read_conditions,
        "lastUpdateTime": only(str),
        "numServeEndpoints": only(int),
        "observedGeneration": only(int),
        "pendingServiceStatus": _cluster_state(usual=0),
        "serviceStatus": only(str),
    }


RAYSERVICES: Final = Resource("ray.io", "v1", "rayservices", "RayService", RayService)


class UpgradeType(Enum):
    """`spec.upgradeStrategy.type`: the reaction to a new specification of the cluster."""

    NEW_CLUSTER = "NewCluster"
    INCREMENTAL = "NewClusterWithIncrementalUpgrade"
    NONE = "None"


class ClusterUpgradeOptions(View, frozen=True):
    """`spec.upgradeStrategy.clusterUpgradeOptions`.

    Attributes:
        max_surge_percent: percent by which both clusters together may exceed the full capacity.
        step_size_percent: percent of the traffic that may be shifted at a time.
        interval_seconds: seconds between two changes of the shares.
        gateway_class_name: class of the Gateway that divides the traffic.
    """

    max_surge_percent: Int32 = 100
    step_size_percent: Int32 | None = None
    interval_seconds: Int32 | None = None
    gateway_class_name: str = ""


class RayServiceUpgradeStrategy(View, frozen=True):
    """`spec.upgradeStrategy`."""

    type: str | None = None
    cluster_upgrade_options: ClusterUpgradeOptions | None = None


class RayServiceSpec(View, frozen=True):
    """`spec` of a RayService. Durations are seconds.

    Attributes:
        ray_cluster_config: plain data without nulls, copied to the RayClusters.
        serve_config: `spec.serveConfigV2`, YAML as the user wrote it.
        serve_service: template of the stable service of the applications.
    """

    ray_cluster_config: dict[str, Any]
    serve_config: str = msgspec.field(default="", name="serveConfigV2")
    serve_service: dict[str, Any] | None = None
    upgrade_strategy: RayServiceUpgradeStrategy = RayServiceUpgradeStrategy()
    ray_cluster_deletion_delay_seconds: Int32 | None = None
    exclude_head_pod_from_serve_svc: bool = False
    suspend: bool = False
    managed_by: str | None = None


def parse_service_spec(service: RayService) -> RayServiceSpec:
    """Return the typed specification without nulls. It copies the data: parse each object once.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return parse(service.spec, RayServiceSpec)


def upgrade_type(
    spec: RayServiceSpec, default: UpgradeType = UpgradeType.NEW_CLUSTER
) -> UpgradeType:
    """Return the reaction to a new specification of the cluster; `default` if none is set.

    Raises:
        ValueError: there is no such type; never raised for a valid specification.
    """
    return UpgradeType(spec.upgrade_strategy.type) if spec.upgrade_strategy.type else default


# Reads the annotation `ray.io/initializing-timeout` of a RayService.


class InvalidTimeout(ValueError):  # noqa: N818
    """The annotation is not a time span. The message is a predicate of the annotation."""


def initializing_timeout(annotations: Mapping[str, str] | None) -> timedelta | None:
    """Return the time in which the service must first serve; None for no limit.

    Raises:
        InvalidTimeout: see its message.
    """
    text = (annotations or {}).get(labels.INITIALIZING_TIMEOUT, "")
    if not text:
        return None
    try:
        seconds = float(int(text)) if text.isascii() and text.isdigit() else read_duration(text)
        found = timedelta(seconds=float(seconds))
    except (InvalidDuration, OverflowError, ValueError) as error:
        raise InvalidTimeout(
            f"is {text[:40]!r}; it must be a duration such as 30m, or a number of seconds"
        ) from error
    if found <= timedelta(0):
        raise InvalidTimeout(f"is {text!r}; it must be positive, or left out")
    return found


# Names of the objects that a RayService creates, in KubeRay's forms.

_SERVE_SERVICE: Final = "-serve-svc"


def serve_service_name(service: ObjectMeta) -> str:
    """Return the name of the stable service of the applications; the user may choose it."""
    return f"{service.name}{_SERVE_SERVICE}"


def cluster_serve_service_name(cluster: str) -> str:
    """Return the name of the service of one cluster's applications, for routes."""
    return f"{cluster}{_SERVE_SERVICE}"


def cluster_behind(service: str) -> str:
    """Return the cluster whose service has this name; inverts `cluster_serve_service_name`."""
    return service.removesuffix(_SERVE_SERVICE)


def gateway_name(service: ObjectMeta) -> str:
    """Return the name of the Gateway that divides requests in an incremental upgrade."""
    return f"{service.name}-gateway"


def route_name(service: ObjectMeta) -> str:
    """Return the name of its HTTPRoute."""
    return f"{service.name}-httproute"


# Types of the conditions of a RayService, KubeRay's.

UPGRADE_IN_PROGRESS: Final = "UpgradeInProgress"
ROLLBACK_IN_PROGRESS: Final = "RollbackInProgress"
SUSPENDING: Final = "Suspending"
SUSPENDED: Final = "Suspended"
