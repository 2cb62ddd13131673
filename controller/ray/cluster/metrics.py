"""Metrics of rolling updates: `manta_upgrade_*`, only of clusters that are being upgraded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.conditions import READY, find_condition, is_true, time_of
from controller.apimachinery.custom_object import conditions_of, dig, mapping
from controller.kube.objects import Certificate
from controller.ray.api import labels
from controller.ray.api.names import PROVISIONED, UPGRADING
from controller.ray.cluster.idle import AT_MINIMUM, IDLE, UNUSED
from controller.runtime.collectors import ObjectCollector, identity, object_gauge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from prometheus_client.core import GaugeMetricFamily, Metric

    from controller.kube.objects import KubeObject
    from controller.ray.api.raycluster import RayCluster


_STATES: Final = ("desired", "updated", "ready", "outdated")


def upgrade_metrics(clusters: Iterable[RayCluster]) -> Iterator[GaugeMetricFamily]:
    """Yield a sample for each upgraded cluster, and one for each group and state of pods.

    With KubeRay's definition, which drops `status.upgrade`, there are no numbers of pods.
    """
    under_way = object_gauge(
        "manta_upgrade_in_progress",
        "1 for a RayCluster that is being upgraded, with the reason of its condition Upgrading",
        "reason",
    )
    started = object_gauge(
        "manta_upgrade_start_time_seconds",
        "When the upgrade of a RayCluster began, or was resumed, in seconds since 1970",
    )
    pods = object_gauge(
        "manta_upgrade_pods",
        "Worker pods of a RayCluster that is being upgraded, by group and state",
        "group",
        "state",
    )
    for cluster in clusters:
        condition = find_condition(conditions_of(cluster), UPGRADING) or {}
        if condition.get("status") != "True":
            continue
        own = identity(cluster.metadata)
        under_way.add_metric([*own, str(condition.get("reason"))], 1)
        began = time_of(condition.get("lastTransitionTime"))
        if began is not None:
            started.add_metric(own, began.timestamp())
        for group, state, count in _counts(dig(cluster.status, "upgrade", "groups")):
            pods.add_metric([*own, group, state], count)
    yield from (under_way, started, pods)


def _counts(groups: Any) -> Iterator[tuple[str, str, int]]:
    """Yield group, state and number of pods, without malformed parts."""
    found = cast("list[Any]", groups) if isinstance(groups, list) else []
    for group in map(mapping, found):
        for state in _STATES:
            count = group.get(state)
            if isinstance(count, int):
                yield str(group.get("name")), state, count


def idle_metrics(clusters: Iterable[RayCluster]) -> Iterator[GaugeMetricFamily]:
    """Yield since when nobody uses a cluster, and how many GPUs it keeps meanwhile."""
    since = object_gauge(
        "manta_cluster_unused_since_seconds",
        "Since when nobody has used a RayCluster that asks for it, in seconds since 1970",
    )
    gpus = object_gauge(
        "manta_cluster_unused_gpus", "GPUs of a RayCluster that nobody uses", "owner_kind"
    )
    for cluster in clusters:
        condition = find_condition(conditions_of(cluster), IDLE) or {}
        began = time_of(condition.get("lastTransitionTime"))
        if condition.get("reason") not in {UNUSED, AT_MINIMUM} or began is None:
            continue
        own = identity(cluster.metadata)
        since.add_metric(own, began.timestamp())
        gpus.add_metric([*own, _owner_kind(cluster)], _gpus(cluster))
    yield from (since, gpus)


def _gpus(cluster: RayCluster) -> float:
    try:
        return float(cluster.status.get("desiredGPU") or 0)
    except (TypeError, ValueError):
        return 0.0  # a quantity that nobody can have asked for in good faith


class CertificateCollector(ObjectCollector["KubeObject"]):
    """Collects when the certificates of clusters with mTLS end, from their objects or Secrets."""

    def metrics(self, current: Iterable[KubeObject], /) -> Iterable[Metric]:
        """Yield one sample for each certificate that was issued."""
        ends = object_gauge(
            "manta_cluster_certificate_end_time_seconds",
            "When a certificate of a RayCluster with mTLS ends, in seconds since 1970",
            "cluster",
        )
        for each in current:
            if (end := _end_of(each)) is not None:
                cluster = (each.metadata.labels or {}).get(labels.CLUSTER, "")
                ends.add_metric([*identity(each.metadata), cluster], end.timestamp())
        return [ends]


def _end_of(each: KubeObject) -> datetime | None:
    if isinstance(each, Certificate):
        return time_of(each.status.not_after)
    return time_of((each.metadata.annotations or {}).get(labels.CERTIFICATE_END))


# KubeRay's metrics of RayClusters, computed from the cache when they are scraped.
#
# Nothing is counted while reconciling, so no series outlives its cluster.


class ClusterCollector(ObjectCollector["RayCluster"]):
    """Collects `kuberay_cluster_*`, `manta_cluster_*` and `manta_upgrade_*`."""

    def metrics(self, current: Iterable[RayCluster], /) -> Iterable[Metric]:
        """Yield one sample for each cluster and family."""
        current = list(current)
        info, provisioned, duration, not_ready = families = _families()
        for cluster in current:
            own = identity(cluster.metadata)
            info.add_metric([*own, _owner_kind(cluster)], 1)
            is_provisioned = is_true(conditions_of(cluster), PROVISIONED)
            provisioned.add_metric([*own, str(is_provisioned).lower()], 1)
            seconds = _provisioning_seconds(cluster) if is_provisioned else None
            if seconds is not None:
                duration.add_metric(own, seconds)
            if (reason := _not_ready_reason(cluster)) is not None:
                not_ready.add_metric([*own, reason], 1)
        return [*families, *upgrade_metrics(current), *idle_metrics(current)]


def _families() -> tuple[GaugeMetricFamily, ...]:
    return (
        object_gauge(
            "kuberay_cluster_info",
            "Metadata information about RayCluster custom resources",
            "owner_kind",
        ),
        object_gauge(
            "kuberay_cluster_condition_provisioned",
            "Whether the RayCluster was provisioned",
            "condition",
        ),
        object_gauge(
            "kuberay_cluster_provisioned_duration_seconds",
            "Seconds from the creation of a RayCluster until all of its pods were ready",
        ),
        object_gauge(
            "manta_cluster_not_ready",
            "1 for a RayCluster that is not ready, by the reason of its condition Ready",
            "reason",
        ),
    )


def _owner_kind(cluster: RayCluster) -> str:
    kind = (cluster.metadata.labels or {}).get(labels.ORIGIN_KIND, "")
    return kind if kind in {"RayJob", "RayService"} else "None"


def _not_ready_reason(cluster: RayCluster) -> str | None:
    """Return the reason of the condition; empty without one; None for a ready cluster."""
    found = find_condition(conditions_of(cluster), READY) or {}
    return None if found.get("status") == "True" else str(found.get("reason") or "")


def _provisioning_seconds(cluster: RayCluster) -> float | None:
    condition = find_condition(conditions_of(cluster), PROVISIONED) or {}
    created = time_of(cluster.metadata.creation_timestamp)
    reached = time_of(condition.get("lastTransitionTime"))
    if created is None or reached is None:
        return None
    return (reached - created).total_seconds()
