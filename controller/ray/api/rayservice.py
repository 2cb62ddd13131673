"""RayService: the cached view, its typed specification, and its validation.

As in `raycluster`, the cached object keeps plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import (
    FieldReader,
    dig,
    mapping,
    only,
    parse,
    read_conditions,
)
from controller.apimachinery.schedule import InvalidDuration, read_duration
from controller.apimachinery.validation import Problem, service_problem
from controller.kube.objects import ObjectMeta, View
from controller.kube.resources import Resource
from controller.ray.api import labels
from controller.ray.api.feature_gates import INCREMENTAL_UPGRADE, FeatureGates
from controller.ray.api.names import MAX_SERVICE_NAME, RayObject
from controller.ray.api.ray_options import InvalidServeConfig, read_serve_config
from controller.ray.api.validation import NameRule, read_spec, valid_or_problem
from controller.ray.api.validation.cluster import embedded_cluster_problem

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


# Validation: KubeRay's checks in its order, each with a remedy.
#
# It also rejects services that KubeRay accepts and that can never serve, or never finish an
# upgrade.


_DEFAULT_GATES: Final = FeatureGates()
INVALID_SPEC_REASON: Final = "InvalidRayServiceSpec"
_METADATA_REASON: Final = "InvalidRayServiceMetadata"
_CLUSTER: Final = "spec.rayClusterConfig"
_OPTIONS: Final = "spec.upgradeStrategy.clusterUpgradeOptions"
_OF_UPGRADES: Final = ("upgradeStrategy", "serveService", "rayClusterDeletionDelaySeconds")
_ANY_CLUSTER: Final = {"enableInTreeAutoscaling": True}
NAME_RULE: Final = NameRule(MAX_SERVICE_NAME, noun="the service", reason=_METADATA_REASON)


def validate_service(
    service: RayService, gates: FeatureGates = _DEFAULT_GATES
) -> RayServiceSpec | Problem:
    """Return the specification if the object is valid, else all of its problems as one."""
    spec = read_spec(service, RayServiceSpec)
    problems = partial(_problems, metadata=service.metadata, gates=gates)
    return valid_or_problem(service, NAME_RULE, spec, problems, INVALID_SPEC_REASON)


class ReadableUpgrade(msgspec.Struct, frozen=True):
    """What an upgrade that has begun needs of an invalid specification.

    Attributes:
        spec: the fields that are valid by themselves; all others are empty.
        invalid: names of the other ones.
    """

    spec: RayServiceSpec
    invalid: frozenset[str] = frozenset()


def read_upgrade(service: RayService, gates: FeatureGates) -> ReadableUpgrade:
    """Return what is valid of the fields that an upgrade needs, each by itself."""
    stored = mapping(service.spec)  # which may be null in an object of long ago
    given = {name: stored[name] for name in _OF_UPGRADES if name in stored}
    invalid = frozenset(name for name in given if not _is_valid_alone(name, given[name], gates))
    valid = {name: value for name, value in given.items() if name not in invalid}
    spec = parse({"rayClusterConfig": _ANY_CLUSTER, **valid}, RayServiceSpec)
    return ReadableUpgrade(spec, invalid)


def _is_valid_alone(name: str, value: Any, gates: FeatureGates) -> bool:
    try:
        spec = parse({"rayClusterConfig": _ANY_CLUSTER, name: value}, RayServiceSpec)
    except msgspec.ValidationError:
        return False
    return not any((*_strategy(spec, gates), *_services(spec)))


def read_upgrade_options(text: str) -> ClusterUpgradeOptions | None:
    """Return the options that are stored on a cluster, which anybody may have edited."""
    try:
        options = parse(msgspec.json.decode(text), ClusterUpgradeOptions)
    except msgspec.DecodeError:
        return None
    return None if any(_options(options)) else options


def _problems(spec: RayServiceSpec, metadata: ObjectMeta, gates: FeatureGates) -> Iterator[Problem]:
    """Yield all problems, most basic first."""
    yield from _timeout(metadata)
    yield from _cluster(spec, metadata, gates)
    yield from _strategy(spec, gates)
    yield from _services(spec)
    yield from _serve_config(spec)


def _timeout(metadata: ObjectMeta) -> Iterator[Problem]:
    try:
        initializing_timeout(metadata.annotations)
    except InvalidTimeout as error:
        field = f"metadata.annotations[{labels.INITIALIZING_TIMEOUT}]"
        yield Problem(field, str(error), _METADATA_REASON)


def _cluster(spec: RayServiceSpec, metadata: ObjectMeta, gates: FeatureGates) -> Iterator[Problem]:
    """Yield problems that would make the created RayClusters invalid."""
    config = spec.ray_cluster_config
    if spec.upgrade_strategy.type == UpgradeType.INCREMENTAL.value:
        config = {**config, "enableInTreeAutoscaling": True}  # which it must be, told in _strategy
    if dig(config, "authOptions", "enableK8sTokenAuth"):
        yield Problem(
            f"{_CLUSTER}.authOptions.enableK8sTokenAuth",
            "cannot be true for the clusters of a RayService: requests to Serve have no such "
            "token; use authOptions.mode token alone",
        )
    problem = embedded_cluster_problem(config, "RayService", metadata.annotations, gates)
    if problem is not None:
        yield problem.under(_CLUSTER, INVALID_SPEC_REASON)
    if dig(config, "headGroupSpec", "headService", "metadata", "name"):
        yield Problem(
            f"{_CLUSTER}.headGroupSpec.headService.metadata.name",
            "must be left out: each cluster of the RayService needs a head service of its own",
        )


def _strategy(spec: RayServiceSpec, gates: FeatureGates) -> Iterator[Problem]:
    strategy = spec.upgrade_strategy
    known = [each.value for each in UpgradeType]
    if strategy.type and strategy.type not in known:
        yield Problem(
            "spec.upgradeStrategy.type", f"{strategy.type!r} is none of {', '.join(known)}"
        )
    delay = spec.ray_cluster_deletion_delay_seconds
    if delay is not None and delay < 0:
        yield Problem("spec.rayClusterDeletionDelaySeconds", "must not be negative")
    if strategy.type != UpgradeType.INCREMENTAL.value:
        return
    if not gates.enabled(INCREMENTAL_UPGRADE):
        yield Problem(
            "spec.upgradeStrategy.type",
            f"asks for {strategy.type}, but the operator runs with the feature gate "
            f"{INCREMENTAL_UPGRADE} off; enable it, or use {UpgradeType.NEW_CLUSTER.value}",
        )
    if not dig(spec.ray_cluster_config, "enableInTreeAutoscaling"):
        yield Problem(
            f"{_CLUSTER}.enableInTreeAutoscaling",
            f"must be true with spec.upgradeStrategy.type {strategy.type}: the clusters grow and "
            "shrink with their capacity",
            against=("spec.upgradeStrategy.type",),
        )
    if strategy.cluster_upgrade_options is None:
        yield Problem(
            _OPTIONS,
            f"must be set with spec.upgradeStrategy.type {strategy.type}: gatewayClassName, "
            "stepSizePercent and intervalSeconds",
        )
    else:
        yield from _options(strategy.cluster_upgrade_options)


def _options(options: ClusterUpgradeOptions) -> Iterator[Problem]:
    surge, step = options.max_surge_percent, options.step_size_percent
    if not 1 <= surge <= 100:
        yield Problem(
            f"{_OPTIONS}.maxSurgePercent",
            f"is {surge}; it must be from 1 to 100, or the upgrade could not begin",
        )
    if step is None or not 1 <= step <= 100:
        yield Problem(
            f"{_OPTIONS}.stepSizePercent",
            f"is {'not set' if step is None else step}; it must be from 1 to 100, or no request "
            "would ever reach the new cluster",
        )
    elif step > surge:
        yield Problem(
            f"{_OPTIONS}.stepSizePercent", f"is {step}, more than maxSurgePercent, {surge}"
        )
    if options.interval_seconds is None or options.interval_seconds <= 0:
        yield Problem(f"{_OPTIONS}.intervalSeconds", "must be positive")
    if not options.gateway_class_name:
        yield Problem(f"{_OPTIONS}.gatewayClassName", "must name a GatewayClass")


def _services(spec: RayServiceSpec) -> Iterator[Problem]:
    problem = service_problem(spec.serve_service, "spec.serveService")
    if problem is not None:
        yield problem


def _serve_config(spec: RayServiceSpec) -> Iterator[Problem]:
    try:
        read_serve_config(spec.serve_config)
    except InvalidServeConfig as error:
        yield Problem("spec.serveConfigV2", str(error))
