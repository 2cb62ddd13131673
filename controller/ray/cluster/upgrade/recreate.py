"""`upgradeStrategy: Recreate`: a changed specification replaces all pods at once.

The head carries the hash of the specification from which it was created, and is deleted last: as
long as it exists, an interrupted replacement continues (behaviour 15). A hash of another operator,
or of another algorithm, cannot be compared: such a head only gets a new hash, so that handing a
cluster over in either direction replaces no pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.api import labels
from controller.ray.api.pod_state import is_head
from controller.ray.cluster.heads import live_head
from controller.ray.cluster.pods.writes import delete_pod, pod_target
from controller.ray.cluster.suspension import every_pod
from controller.ray.cluster.upgrade.strategy import UpgradeStep
from controller.ray.head.identity import HEAD_SCOPE
from controller.ray.pods.hashes.template_hash import is_outdated
from controller.runtime.plan import MergePatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.runtime.plan import Write

_REASON: Final = "the specification has changed and upgradeStrategy is Recreate"


@dataclass(frozen=True, slots=True)
class Recreate:
    """Deletes all pods, then creates them from the present specification."""

    reason: str = "UpgradeStrategyRecreate"
    outlook: str = "pods are replaced unless only tolerations or scheduling gates have changed"

    def is_due(self, seen: ClusterObservation, desired: DesiredCluster) -> bool:
        """Return whether the live head was created from another specification.

        Without a live head there is nothing to compare: the next head is up to date anyway.
        """
        head = live_head(seen)
        if head is None:
            return False
        stamped, wanted = head.metadata.annotations or {}, _stamps_of_new_head(desired)
        same_operator = stamped.get(labels.KUBERAY_VERSION) == wanted[labels.KUBERAY_VERSION]
        hash_ = stamped.get(labels.RECREATE_HASH)
        return same_operator and is_outdated(hash_, desired.builder.recreate_hash)

    def next_step(self, seen: ClusterObservation, desired: DesiredCluster) -> UpgradeStep | None:
        """Confirm all pods by live lists, then delete them; None if the head is up to date."""
        if not self.is_due(seen, desired):
            return None
        if not seen.pods_listed:
            return UpgradeStep(lookups=(every_pod(seen.cluster),))
        return UpgradeStep(stages=_delete_everything(seen))

    def stamps(self, seen: ClusterObservation, desired: DesiredCluster) -> Sequence[Write]:
        """Return writes that replace a hash which cannot be compared."""
        head = live_head(seen)
        if head is None or HEAD_SCOPE in seen.pending_scopes or self.is_due(seen, desired):
            return ()
        present, wanted = head.metadata.annotations or {}, _stamps_of_new_head(desired)
        if all(present.get(key) == value for key, value in wanted.items()):
            return ()
        target = pod_target(seen, head.metadata.name, HEAD_SCOPE)
        return (MergePatch(target, head.metadata.uid, {"metadata": {"annotations": wanted}}),)


def _delete_everything(seen: ClusterObservation) -> tuple[list[Write], list[Write]]:
    """Return deletes of all workers, then of the heads once no lost create can add a worker."""
    pods = [pod for pod in seen.all_pods if not pod.metadata.terminating]
    workers: list[Write] = [
        delete_pod(seen, pod, what="WorkerPod", reason=_REASON) for pod in pods if not is_head(pod)
    ]
    heads: list[Write] = [
        delete_pod(seen, pod, what="HeadPod", reason=_REASON) for pod in pods if is_head(pod)
    ]
    settled = [write for write in workers if write.target.scope not in seen.pending_scopes]
    return settled, heads if not seen.pending_scopes else []


def _stamps_of_new_head(desired: DesiredCluster) -> dict[str, str]:
    """Return operator and hash for a head that is created now."""
    annotations = desired.builder.head("")["metadata"]["annotations"]
    return {key: annotations[key] for key in (labels.KUBERAY_VERSION, labels.RECREATE_HASH)}
