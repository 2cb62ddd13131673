"""The batch schedulers that KubeRay knows, one of which an administrator may choose for all pods.

A row says which objects describe a gang to the scheduler, and which labels of Ray objects it obeys.
`pods/gang.py` marks the pods, `children/scheduling_groups.py` makes the objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from controller.apimachinery.validation import Problem
from controller.kube.objects import ObjectMeta
from controller.kube.resources import (
    PLUGIN_POD_GROUPS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    WORKLOADS,
    Resource,
)
from controller.ray.api import labels
from controller.ray.api.feature_gates import WORKLOAD_SCHEDULING, FeatureGates
from controller.ray.api.rayjob import JobSpec, SubmissionMode

TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier-allowed"
QUEUE: Final = "volcano.sh/queue-name"


class BatchScheduler(Struct, frozen=True):
    """One batch scheduler.

    Attributes:
        name: as `--batch-scheduler` has it.
        pods_name: `schedulerName` of the pods.
        groups: resources of the objects that describe a gang, in the order of their creation.
        copied: labels of a Ray object that its pods get, with their keys on the pods.
        options: other labels of a Ray object that it obeys.
        install: what to install where the API of the groups is missing.
    """

    name: str
    pods_name: str
    groups: tuple[Resource[Any], ...] = ()
    copied: Mapping[str, str] = field(default_factory=dict[str, str])
    options: tuple[str, ...] = ()
    install: str = ""

    @property
    def obeys(self) -> frozenset[str]:
        """The labels of a Ray object that have an effect with it."""
        return frozenset((*self.copied, *self.options))


VOLCANO: Final = BatchScheduler(
    "volcano",
    "volcano",
    (VOLCANO_POD_GROUPS,),
    {QUEUE: QUEUE, labels.PRIORITY_CLASS: labels.PRIORITY_CLASS},
    (TOPOLOGY_MODE, HIGHEST_TIER),
    "install Volcano",
)
YUNIKORN: Final = BatchScheduler(
    "yunikorn",
    "yunikorn",
    copied={
        "yunikorn.apache.org/app-id": "applicationId",
        "yunikorn.apache.org/queue": "queue",
    },
    options=(labels.GANG,),
)
KAI: Final = BatchScheduler(
    "kai-scheduler", "kai-scheduler", copied={"kai.scheduler/queue": "kai.scheduler/queue"}
)
PLUGINS: Final = BatchScheduler(
    "scheduler-plugins",
    "scheduler-plugins-scheduler",
    (PLUGIN_POD_GROUPS,),
    options=(labels.GANG,),
    install="install scheduler-plugins with its definition of PodGroups",
)
WORKLOAD_API: Final = BatchScheduler(
    "kubernetes-was-v1alpha2",
    "default-scheduler",
    (WORKLOADS, POD_GROUPS),
    options=(labels.GANG,),
    install="it needs Kubernetes 1.36 with the feature gates GenericWorkload and GangScheduling "
    "and --runtime-config=scheduling.k8s.io/v1alpha2=true",
)
"""Kubernetes' own API for gangs; the feature gate chooses it."""

BATCH_SCHEDULERS: Final = {each.name: each for each in (VOLCANO, YUNIKORN, KAI, PLUGINS)}
"""The schedulers that `--batch-scheduler` can choose, by name."""


def scheduler_labels() -> Iterable[str]:
    """Return all labels of Ray objects that some batch scheduler obeys, in order."""
    known = (*BATCH_SCHEDULERS.values(), WORKLOAD_API)
    return sorted({label for each in known for label in each.obeys})


def chosen_scheduler(
    name: str, gates: FeatureGates, *, legacy: bool = False
) -> BatchScheduler | None:
    """Return the batch scheduler that an administrator has chosen, None if there is none.

    Args:
        name: value of `--batch-scheduler`; may be empty.
        gates: the enabled features; `KubernetesWAS` chooses Kubernetes' own API.
        legacy: value of `--enable-batch-scheduler`, which means Volcano.

    Raises:
        ValueError: there is no such scheduler, or two are chosen.
    """
    if gates.enabled(WORKLOAD_SCHEDULING):
        if name or legacy:
            raise ValueError(
                f"feature gate {WORKLOAD_SCHEDULING}: it chooses Kubernetes' own scheduler, so "
                "-batch-scheduler and -enable-batch-scheduler must not be set beside it"
            )
        return WORKLOAD_API
    if legacy and name:
        raise ValueError(
            "-enable-batch-scheduler: it means volcano, and -batch-scheduler is set too; keep only "
            "the latter"
        )
    if not name and not legacy:
        return None
    found = BATCH_SCHEDULERS.get(name or VOLCANO.name)
    if found is None:
        known = ", ".join(BATCH_SCHEDULERS)
        raise ValueError(f"-batch-scheduler={name}: there is none of this name; there are {known}")
    return found


def label_problem(scheduler: BatchScheduler | None, owner: ObjectMeta) -> Problem | None:
    """Return the problem of the labels that the scheduler obeys; None if they are valid."""
    given = owner.labels or {}
    tier = given.get(HIGHEST_TIER) if TOPOLOGY_MODE in given else None
    if scheduler is not VOLCANO or tier is None or (tier.isascii() and tier.isdigit()):
        return None
    return Problem(f"metadata.labels[{HIGHEST_TIER}]", f"is {tier!r}; it must be a whole number")


def job_problem(
    scheduler: BatchScheduler | None, owner: ObjectMeta, spec: JobSpec
) -> Problem | None:
    """Return why the scheduler cannot run a RayJob, as in KubeRay; None if it can."""
    if scheduler is PLUGINS:
        return Problem(
            "kind",
            f"RayJob: batch scheduler {PLUGINS.name} schedules RayClusters only. Submit the job to "
            "a RayCluster yourself, or choose another batch scheduler",
        )
    if scheduler is KAI and spec.submission_mode is SubmissionMode.K8S_JOB:
        return Problem(
            "spec.submissionMode",
            f"is K8sJobMode: batch scheduler {KAI.name} cannot schedule a submitter that comes "
            "after its cluster. Set it to SidecarMode or HTTPMode",
        )
    if scheduler is VOLCANO and spec.cluster_selector:
        return Problem(
            "spec.clusterSelector",
            f"selects a cluster: batch scheduler {VOLCANO.name} schedules a RayJob together with "
            "its own cluster. Set spec.rayClusterSpec instead",
        )
    return label_problem(scheduler, owner)
