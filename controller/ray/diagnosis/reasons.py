"""The table of reasons for which a cluster is not ready.

The names are stable, because users and tools depend on them. Reasons of the kubelet, the scheduler
and KubeRay keep their names. `docs/reasons.md` shows this table.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from controller.runtime.reasons import (
    API_SERVER_UNAVAILABLE,
    NAMESPACE_TERMINATING,
    REFUSALS,
    REPEATEDLY_DELETED,
    Reason,
    Severity,
)


class Cause(Struct, frozen=True):
    """A cause that keeps a cluster from being ready.

    Attributes:
        component: the component of the cluster: `head`, `group small`, `Service a-head-svc`.
        detail: the problem and its remedy, without the component.
        blocks_head: whether it prevents a head.
        since: time when it began, None if unknown.
        age: orders causes of the same urgency; the smallest comes first, so that the first cause
            is stable.
        event: KubeRay's reason of its event, if that is not the reason's name.
    """

    reason: Reason
    component: str
    detail: str
    blocks_head: bool = False
    since: datetime | None = None
    age: str = ""
    event: str = ""

    @property
    def message(self) -> str:
        """The sentence of the condition; `component_of` extracts the component."""
        return f"{self.component}: {self.detail}"

    @property
    def urgency(self) -> tuple[bool, bool, Severity, str, str, str]:
        """Sort key: the head's causes first, then by severity; those in progress last."""
        in_progress = self.reason.severity is Severity.IN_PROGRESS
        ties = self.component, self.age, self.detail
        return in_progress, not self.blocks_head, self.reason.severity, *ties


def component_of(message: str) -> str:
    """Return the component that a stored message concerns."""
    return message.partition(": ")[0]


def _help(name: str, meaning: str, remedy: str) -> Reason:
    return Reason(name, Severity.ACTION_REQUIRED, meaning, remedy)


def _pass(name: str, meaning: str, remedy: str) -> Reason:
    return Reason(name, Severity.TRANSIENT, meaning, remedy)


def _wait(name: str, meaning: str, remedy: str = "Wait.") -> Reason:
    return Reason(name, Severity.IN_PROGRESS, meaning, remedy)


INVALID_SPEC: Final = _help(
    "InvalidRayClusterSpec",
    "A field of the specification is invalid; the message begins with its path. The operator "
    "leaves the cluster as it is.",
    "Correct the field.",
)
INVALID_METADATA: Final = _help(
    "InvalidRayClusterMetadata",
    "The name, a label or an annotation of the RayCluster is not allowed.",
    "Create the RayCluster under another name, or correct the annotation.",
)
INVALID_STATUS: Final = _help(
    "InvalidRayClusterStatus",
    "Specification and stored status contradict each other.",
    "Follow the message.",
)
FAILED_READ: Final = _pass(
    "FailedRead",
    "A read on which everything else depends was refused or not answered.",
    "Grant the operator the right that the message names, or restore the API server.",
)
RECONCILE_ERROR: Final = _pass(
    "ReconcileError",
    "The operator itself failed; other clusters are not affected.",
    "Report it with the operator's log; the operator tries again.",
)
ADMISSION_CHANGED: Final = _help(
    "AdmissionChangedObject",
    "An admission webhook removed labels or the owner reference by which the operator "
    "recognises its objects.",
    "Exempt Ray's pods from that webhook, then delete the object.",
)
NAME_TAKEN: Final = _help(
    "NameTaken",
    "An object under a name that the cluster needs already exists and belongs to another owner.",
    "Delete or rename that object, or rename the cluster.",
)
DELETION_HELD: Final = _help(
    "DeletionHeld",
    "Pods are surplus although the specification was not edited: an installed definition drops "
    "fields of it. They are not deleted.",
    "Install this operator's definitions and apply the manifest again, delete the pods, or edit "
    "the specification.",
)
SCHEDULING_GROUP_MISSING: Final = _help(
    "SchedulingGroupMissing",
    "The API server has no API for the groups of the chosen batch scheduler, or refuses to show "
    "them. No pod starts without its group.",
    "Install what the message names, or take the batch scheduler out of the operator's settings.",
)
CERT_MANAGER_MISSING: Final = _help(
    "CertManagerMissing",
    "The cluster asks for mTLS, and the API server has no API of cert-manager, or refuses to show "
    "its objects. No pod is created without a certificate.",
    "Install cert-manager, grant the operator the rights that the message names, or let it issue "
    "certificates itself (`--mtls-issuer=manta`).",
)
CERTIFICATE_NOT_ISSUED: Final = _pass(
    "CertificateNotIssued",
    "cert-manager has not issued a certificate of the cluster for five minutes.",
    "Look at the Certificate with `kubectl describe certificate`, and at cert-manager's log.",
)
REQUIRED_OBJECT_MISSING: Final = _help(
    "GivenObjectMissing",
    "The specification names an object that users create themselves, and it does not exist.",
    "Create that object, or name another one.",
)
FOREIGN_HEAD: Final = _help(
    "ForeignHead",
    "A head pod with this cluster's labels belongs to another owner, and a cluster can have "
    "only one.",
    "Delete that pod, or wait until its owner is gone.",
)
POD_UNREADABLE: Final = _help(
    "PodUnreadable",
    "A pod of the cluster cannot be decoded, so it cannot be counted.",
    "Delete that pod.",
)
IMAGE_PULL: Final = _help(
    "ImagePullBackOff",
    "The kubelet cannot pull an image (also ErrImagePull, RegistryUnavailable).",
    "Correct the image, push it, or give the pod template an imagePullSecret.",
)
INVALID_IMAGE_NAME: Final = _help(
    "InvalidImageName",
    "The image name of a container is malformed.",
    "Correct it in the pod template.",
)
IMAGE_NEVER_PULLED: Final = _help(
    "ErrImageNeverPull",
    "The image is not on the node, and imagePullPolicy is Never.",
    "Load the image onto the node, or change imagePullPolicy.",
)
CONTAINER_CONFIG: Final = _help(
    "CreateContainerConfigError",
    "A Secret, ConfigMap or key that a container's environment refers to does not exist.",
    "Create it, or correct the reference.",
)
CONTAINER_CREATION: Final = _help(
    "CreateContainerError",
    "The container runtime cannot create a container.",
    "Follow the runtime's message.",
)
CONTAINER_START: Final = _help(
    "RunContainerError",
    "The container runtime cannot start a container, usually because its command does not exist.",
    "Correct command and args, or the image.",
)
OUT_OF_MEMORY: Final = _help(
    "OOMKilled",
    "A container used more memory than its limit and was killed.",
    "Raise the memory limit of that container.",
)
CRASH_LOOP: Final = _help(
    "CrashLoopBackOff",
    "A container keeps ending; the message has its last exit code and reason, and the error that "
    "it left for the kubelet or, of the head or else the oldest worker, in its log.",
    "Read its last log: `kubectl logs POD -c CONTAINER --previous`.",
)
UNSCHEDULABLE: Final = _pass(
    "Unschedulable",
    "The scheduler finds no node for a pod; the message quotes it.",
    "Add nodes, lower the requests, or correct nodeSelector, affinity and tolerations.",
)
SCHEDULING_GATED: Final = _pass(
    "SchedulingGated",
    "Scheduling gates hold a pod back.",
    "Wait for the controller that set the gates (a queue such as Kueue) to remove them.",
)
VOLUME_CLAIM_MISSING: Final = _help(
    "PersistentVolumeClaimNotFound",
    "A PersistentVolumeClaim that the pod template refers to does not exist.",
    "Create it, or correct claimName.",
)
VOLUME_CLAIM_UNBOUND: Final = _pass(
    "PersistentVolumeClaimUnbound",
    "A PersistentVolumeClaim has no volume yet.",
    "Look at the claim's events with `kubectl describe pvc`; usually its storage class is missing.",
)
NODE_LOST: Final = _pass(
    "NodeLost",
    "The node of a pod no longer reports.",
    "Repair the node, or delete its Node object so that its pods are replaced.",
)
STUCK_TERMINATING: Final = _help(
    "PodStuckTerminating",
    "A deleted pod does not disappear; it is not replaced until it does.",
    "Delete the Node object if the node is dead. Otherwise remove the pod's finalizers, or "
    "delete it with `--grace-period=0 --force` if it certainly no longer runs.",
)
EVICTED: Final = _pass(
    "Evicted",
    "The kubelet evicted a pod, usually because the node lacked memory or disk.",
    "Raise the requests to what the pod uses; the operator replaces it.",
)
POD_DELETED: Final = _pass(
    "PodDeleted",
    "Another client deletes or evicts pods soon after their creation, again and again; they are "
    "replaced with back-off.",
    "Stop that client; the message says how to find it.",
)
POD_FAILED: Final = _pass(
    "PodFailed",
    "A pod has ended with an error.",
    "Read its log, if it still exists; the operator replaces it.",
)
POD_SUCCEEDED: Final = _pass(
    "PodSucceeded",
    "A pod has ended without an error, although Ray never ends by itself.",
    "Correct command and args if the template overrides them; the operator replaces the pod.",
)
HEAD_NOT_SELECTED: Final = _help(
    "HeadNotSelected",
    "The head is ready, and its service selects other labels than the head has, so that workers, "
    "clients and the dashboard find nothing behind the service.",
    "Put the label back with the command in the message, or stop what changes the service.",
)
HEAD_UNREACHABLE: Final = _pass(
    "HeadUnreachable",
    "The head is ready, and a worker has not reached it for five minutes.",
    "Check network policies, DNS and service meshes between worker and head service.",
)
PROBE_FAILING: Final = _pass(
    "ReadinessProbeFailing",
    "A container is running and has not passed its readiness probe for five minutes. The "
    "head's probe checks its dashboard and GCS.",
    "Read the container's log, and the probe's results with `kubectl describe pod`.",
)
SLOW_START: Final = _pass(
    "ContainersNotCreated",
    "A pod has a node, and its containers have not been created for five minutes.",
    "See `kubectl describe pod`. The image may be large, or a Secret, ConfigMap or volume to "
    "mount may not exist.",
)
WAITING_FOR_HEAD: Final = _wait("WaitingForHead", "A worker waits until the head is reachable.")
CONTAINERS_NOT_READY: Final = _wait(
    "ContainersNotReady",
    "Containers are running and not ready yet.",
)
POD_PENDING: Final = _wait("PodPending", "A pod is being scheduled or started.")
CERTIFICATE_PENDING: Final = _wait(
    "CertificatePending",
    "Pods wait until their certificate is issued.",
)
CHILD_MISSING: Final = _wait(
    "ChildMissing",
    "A service, or another object that belongs to the cluster, has yet to be created. Pods that "
    "depend on it wait for it.",
)
PODS_MISSING: Final = _wait(
    "PodsMissing",
    "Pods have yet to be created, or to be deleted before others are created.",
)
SUSPENDED: Final = _wait(
    "Suspended",
    "The cluster is suspended, as requested.",
    "Set `spec.suspend` to false to resume it.",
)
BEING_DELETED: Final = _wait(
    "BeingDeleted",
    "The cluster is being deleted; the message says what it still waits for, and until when.",
    "Wait, or remove what the message names.",
)

REASONS: Final = tuple(
    sorted(
        {*REFUSALS, *(value for value in list(globals().values()) if isinstance(value, Reason))},
        key=lambda reason: (reason.severity, reason.name),
    )
)
"""All reasons, most severe first."""

WRITE_REJECTIONS: Final = {
    reason.name: reason
    for reason in REFUSALS
    if reason not in {NAMESPACE_TERMINATING, REPEATEDLY_DELETED, API_SERVER_UNAVAILABLE}
}
"""Reasons for which the API server rejects a write, by name."""

COMING_UP: Final = frozenset({
    WAITING_FOR_HEAD,
    CONTAINERS_NOT_READY,
    POD_PENDING,
    CHILD_MISSING,
    PODS_MISSING,
})  # fmt: skip
"""Reasons of a cluster whose objects are made and start, as far as nothing is wrong."""
