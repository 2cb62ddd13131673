"""Validates a RayService: KubeRay's checks in its order, each with a remedy.

It also rejects services that KubeRay accepts and that can never serve, or never finish an upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.custom_object import dig, mapping, parse
from controller.apimachinery.problem import Problem
from controller.apimachinery.template import service_problem
from controller.ray.api import labels
from controller.ray.api.feature_gates import INCREMENTAL_UPGRADE, FeatureGates
from controller.ray.api.names import MAX_SERVICE_NAME
from controller.ray.api.ray_options import InvalidServeConfig, read_serve_config
from controller.ray.api.rayservice import (
    ClusterUpgradeOptions,
    InvalidTimeout,
    RayServiceSpec,
    UpgradeType,
    initializing_timeout,
    parse_service_spec,
)
from controller.ray.api.validation.cluster import embedded_cluster_problem
from controller.ray.api.validation.context import NameRule, read_spec, valid_or_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import ObjectMeta
    from controller.ray.api.rayservice import RayService

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
    spec = read_spec(service, parse_service_spec)
    problems = partial(_problems, metadata=service.metadata, gates=gates)
    return valid_or_problem(service, NAME_RULE, spec, problems, INVALID_SPEC_REASON)


@dataclass(frozen=True, slots=True)
class ReadableUpgrade:
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
