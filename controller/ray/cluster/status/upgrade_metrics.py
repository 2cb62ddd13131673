"""Metrics of rolling updates: `manta_upgrade_*`, only of clusters that are being upgraded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.conditions import find_condition, time_of
from controller.apimachinery.custom_object import conditions_of, dig, mapping
from controller.ray.api.cluster_condition_types import UPGRADING
from controller.runtime.metrics.collectors import identity, object_gauge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import GaugeMetricFamily

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
