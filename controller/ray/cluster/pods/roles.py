"""Sorts the pods of a cluster by role: heads, and workers of each group.

Labels name the role, but any client may change them. A pod's name shows the role too, and never
changes: a worker whose label names another group is no surplus of that group, and no second head.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.kubectl import overwrite_command
from controller.ray.api import labels
from controller.ray.api.names import head_prefix, worker_prefix
from controller.ray.api.pod_state import group_of, is_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.kube.objects import Pod


@dataclass(frozen=True, slots=True)
class PodsByRole:
    """The pods of one cluster.

    Attributes:
        heads: its heads.
        workers: workers by group, including groups that are not in the specification.
        relabelled: sentences about pods whose labels contradict their names.
        unknown: sentences about pods of which neither name nor labels tell the role.
    """

    heads: tuple[Pod, ...]
    workers: Mapping[str, tuple[Pod, ...]]
    relabelled: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def sort_by_role(cluster: str, groups: Iterable[str], pods: Iterable[Pod]) -> PodsByRole:
    """Sort pods by their names; where a name is ambiguous, labels decide.

    Args:
        cluster: name of the cluster.
        groups: the worker groups of its specification.
        pods: all pods that it owns.
    """
    groups_of = _groups_of_names(cluster, groups)
    heads: list[Pod] = []
    workers: defaultdict[str, list[Pod]] = defaultdict(list)
    relabelled: list[str] = []
    unknown: list[str] = []
    for pod in pods:
        labelled = labels.HEAD_GROUP if is_head(pod) else group_of(pod)
        group = groups_of.get(pod.metadata.name.rpartition("-")[0], labelled)
        if not group:
            unknown.append(f"pod {pod.metadata.name} lost the label {labels.GROUP}")
        if group == labels.HEAD_GROUP:
            heads.append(pod)
        else:
            workers[group].append(pod)
        if group != labelled:
            relabelled.append(_sentence(pod, group))
    return PodsByRole(
        tuple(heads),
        {group: tuple(found) for group, found in workers.items()},
        tuple(sorted(relabelled)),
        tuple(sorted(unknown)),
    )


def _groups_of_names(cluster: str, groups: Iterable[str]) -> dict[str, str]:
    """Return groups by the prefix of their pods' names, where that is neither cut nor ambiguous."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    found[head_prefix(cluster)].append(labels.HEAD_GROUP)
    for group in groups:
        found[worker_prefix(cluster, group)].append(group)
    return {prefix: same[0] for prefix, same in found.items() if len(same) == 1}


def _sentence(pod: Pod, group: str) -> str:
    meta = pod.metadata
    role = labels.HEAD if group == labels.HEAD_GROUP else labels.WORKER
    found = meta.labels or {}
    values = {labels.GROUP: group, labels.NODE_TYPE: role}
    return (
        f"pod {meta.name} was created for group {group}, and its labels say "
        f"{labels.GROUP}={found.get(labels.GROUP, '')} and "
        f"{labels.NODE_TYPE}={found.get(labels.NODE_TYPE, '')}; put them back: "
        f"{overwrite_command('label', 'pod', meta, values)}"
    )
