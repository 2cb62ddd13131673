"""`upgradeStrategy: Recreate`: a changed specification replaces all pods at once.

The head carries the hash of the specification that it was made from, and is therefore the last to
go: as long as it is there, an interrupted replacement is continued (behaviour 15). A hash of
another operator, or of another algorithm, says nothing about ours: such a head is stamped anew
and nothing else happens, in whichever direction a cluster is handed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.api import labels
from controller.ray.api.pod_state import is_head
from controller.ray.cluster.heads import live_head
from controller.ray.cluster.pod_writes import delete_pod, pod_target
from controller.ray.head.identity import HEAD_SCOPE
from controller.ray.pods.template_hash import is_outdated
from controller.runtime.reconcile.plan import MergePatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.runtime.reconcile.plan import Write

RECREATE: Final = "Recreate"
"""Value of `spec.upgradeStrategy.type`."""

_REASON: Final = "the specification has changed and upgradeStrategy is Recreate"


def must_recreate(seen: ClusterObservation, design: DesiredCluster) -> bool:
    """Whether the live head was made from another specification than the present one.

    Without a live head there is nothing to compare: what is made next is up to date anyway.
    """
    head = live_head(seen)
    if design.spec.upgrade_strategy.type != RECREATE or head is None:
        return False
    stamped, wanted = head.metadata.annotations or {}, _stamps(design)
    return stamped.get(labels.KUBERAY_VERSION) == wanted[labels.KUBERAY_VERSION] and is_outdated(
        stamped.get(labels.RECREATE_HASH), wanted[labels.RECREATE_HASH]
    )


def delete_outdated(seen: ClusterObservation) -> tuple[list[Write], list[Write]]:
    """All workers, and after them the heads, once no lost create can bring another worker."""
    pods = [pod for pod in seen.all_pods if not pod.metadata.terminating]
    workers: list[Write] = [
        delete_pod(seen, pod, what="WorkerPod", reason=_REASON) for pod in pods if not is_head(pod)
    ]
    heads: list[Write] = [
        delete_pod(seen, pod, what="HeadPod", reason=_REASON) for pod in pods if is_head(pod)
    ]
    settled = [write for write in workers if write.target.scope not in seen.pending_scopes]
    return settled, heads if not seen.pending_scopes else []


def restamp_head(seen: ClusterObservation, design: DesiredCluster) -> Iterator[Write]:
    """Put our hash in the place of one that we cannot compare with ours."""
    head = live_head(seen)
    if design.spec.upgrade_strategy.type != RECREATE or head is None:
        return
    stamps = _stamps(design)
    present = head.metadata.annotations or {}
    if HEAD_SCOPE not in seen.pending_scopes and any(
        present.get(k) != v for k, v in stamps.items()
    ):
        yield MergePatch(
            pod_target(seen, head.metadata.name, HEAD_SCOPE),
            head.metadata.uid,
            {"metadata": {"annotations": stamps}},
        )


def _stamps(design: DesiredCluster) -> dict[str, str]:
    """Whose hash of what a head that is made now carries."""
    annotations = design.builder.head("")["metadata"]["annotations"]
    return {key: annotations[key] for key in (labels.KUBERAY_VERSION, labels.RECREATE_HASH)}
