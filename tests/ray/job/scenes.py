"""A RayJob somewhere in its life, its cluster, head and submitter, and what Ray says."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import Job, OwnerReference, Pod
from controller.kube.resources import JOBS, PODS
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard import Head
from controller.ray.dashboard.commands import CommandOutcome
from controller.ray.dashboard.probes import Probe, ProbeObservation
from controller.ray.dashboard.responses import JobInfo, JobStatus, NoSuchJob
from controller.ray.job import RayJobKind
from controller.ray.settings import RaySettings
from controller.runtime.plan import Plan
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import NOW, head, pod
from tests.ray.job.rayjobs import UID, job_manifest, rayjob

CLUSTER = "example-abcde"
JOB_ID = "example-vwxyz"
CLUSTER_UID = "uid-of-cluster"


@dataclass
class FakeDashboards:
    """Dashboards that have said this."""

    answer: ProbeObservation | None = None
    outcomes: dict[str, CommandOutcome] = field(default_factory=dict)

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        return self.answer

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        return self.outcomes.get(command_id)


class Scene:
    """One RayJob at one moment.

    Args:
        state: its `jobDeploymentStatus`.
        status: further fields of its status.
        runs_on: the recorded incarnation of the head, `uid/restarts`; empty for none.
        spec: fields of its spec.
    """

    def __init__(
        self,
        state: str = "Running",
        *,
        status: dict[str, Any] | None = None,
        runs_on: str = "uid-of-example-head-aaaaaaaa/0",
        meta: dict[str, Any] | None = None,
        settings: RaySettings | None = None,
        **spec: Any,
    ) -> None:
        manifest = job_manifest(**{"submissionMode": "HTTPMode"} | spec)
        known = {
            "jobDeploymentStatus": state,
            "jobId": JOB_ID,
            "rayClusterName": CLUSTER,
            "startTime": rfc3339(NOW - timedelta(minutes=1)),
            "conditions": [{"type": "Ready", "status": "False", "reason": "x", "message": ""}],
            "attempts": [{"number": 1, "rayClusterName": CLUSTER, "jobId": JOB_ID}],
        }
        manifest["status"] = ({} if state == "" else known) | (status or {})
        manifest["metadata"] |= {"finalizers": ["ray.io/rayjob-finalizer"]} | (meta or {})
        if runs_on:
            annotations = manifest["metadata"].setdefault("annotations", {})
            annotations["manta.dev/runs-on"] = f"{CLUSTER}/{runs_on}"
        self.dashboards = FakeDashboards()
        self.kind = RayJobKind(settings, self.dashboards)
        self.reads = FakeReads(self.kind)
        self.reads.add(RAYJOBS, rayjob(manifest))

    def with_cluster(
        self, state: str = "ready", *, owner: str = UID, terminating: bool = False, **spec: Any
    ) -> Scene:
        self.reads.add(RAYCLUSTERS, cluster(state, owner=owner, terminating=terminating, **spec))
        return self

    def with_head(self, **more: Any) -> Scene:
        self.reads.add(PODS, head_pod(**more))
        return self

    def with_submitter(self, condition: str = "", *, ended: datetime | None = None) -> Scene:
        self.reads.add(JOBS, submitter(condition, ended=ended))
        return self

    def with_submitter_pod(
        self, *containers: dict[str, Any], name: str = "example-x", **more: Any
    ) -> Scene:
        """A pod of the submitter's Job, with the status of these containers."""
        self.reads.add(PODS, submitter_pod(name, *containers, **more))
        return self

    def answers(self, value: Any = None, **more: Any) -> Scene:
        long_ago = NOW - timedelta(minutes=1)
        self.dashboards.answer = ProbeObservation(
            value, **{"since": long_ago, "last_success": NOW} | more
        )
        return self

    def jumped(self, seconds_ago: float) -> Scene:
        """The clock has jumped."""
        self.reads.clock_jumped_at = NOW - timedelta(seconds=seconds_ago)
        return self.started(seconds_ago)

    def started(self, seconds_ago: float) -> Scene:
        """The process has begun to lead, or its clock has jumped."""
        self.reads.clock_steady_since = NOW - timedelta(seconds=seconds_ago)
        return self

    def says(self, status: JobStatus, **more: Any) -> Scene:
        return self.answers(JobInfo(JOB_ID, status, **more))

    def knows_nothing(self, **more: Any) -> Scene:
        return self.answers(NoSuchJob(), **more)

    def fails(self, seconds: float, **more: Any) -> Scene:
        """The probes of this process have failed for so long."""
        since = NOW - timedelta(seconds=seconds)
        return self.answers(None, failing_since=since, error="connection refused", **more)

    def plan(self, *, seconds: float = 0) -> Plan:
        seen = self.kind.observe("default/example", self.reads)
        assert seen is not None
        return self.kind.plan(seen, NOW + timedelta(seconds=seconds))


def running(**more: Any) -> Scene:
    """A job that is with Ray, on its cluster and head."""
    return Scene("Running", **more).with_cluster().with_head()


def cluster(
    state: str = "ready",
    *,
    name: str = CLUSTER,
    uid: str = CLUSTER_UID,
    owner: str = UID,
    terminating: bool = False,
    **spec: Any,
) -> RayCluster:
    raw: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": "7",
            "deletionTimestamp": rfc3339(NOW) if terminating else None,
            "ownerReferences": [
                {"apiVersion": "ray.io/v1", "kind": "RayJob", "uid": owner, "controller": True}
            ],
        },
        "spec": job_manifest()["spec"]["rayClusterSpec"] | spec,
        "status": {"state": state} if state else {},
    }
    return msgspec.convert(raw, RayCluster)


def head_pod(name: str = "example-head-aaaaaaaa", *, restarts: int = 0, **more: Any) -> Pod:
    containers = [{"name": "ray-head", "restartCount": restarts, "state": {"running": {}}}]
    pod = head(
        name,
        owner_uid=None,
        **{"containers": containers, "labels": {"ray.io/cluster": CLUSTER}} | more,
    )
    owner = OwnerReference(
        api_version="ray.io/v1", kind="RayCluster", name=CLUSTER, uid=CLUSTER_UID, controller=True
    )
    metadata = msgspec.structs.replace(pod.metadata, owner_references=(owner,))
    return msgspec.structs.replace(pod, metadata=metadata)


def submitter(condition: str = "", *, ended: datetime | None = None, owner: str = UID) -> Job:
    raw: dict[str, Any] = {
        "metadata": {
            "name": "example",
            "namespace": "default",
            "uid": "uid-of-submitter",
            "ownerReferences": [
                {"apiVersion": "ray.io/v1", "kind": "RayJob", "uid": owner, "controller": True}
            ],
        },
        "spec": {"template": {"spec": {"containers": [{"name": "mine"}]}}},
        "status": {},
    }
    if condition:
        raw["status"]["conditions"] = [
            {
                "type": condition,
                "status": "True",
                "reason": "BackoffLimitExceeded",
                "message": "it failed",
                "lastTransitionTime": rfc3339(ended or NOW),
            }
        ]
    return msgspec.convert(raw, Job)


def submitter_pod(name: str, *containers: dict[str, Any], **more: Any) -> Pod:
    labels = {"ray.io/node-type": "submitter", "ray.io/originated-from-cr-name": "example"}
    given = {"restart_policy": "Never", "ready": False} | more
    return pod(
        name, labels=labels, owner_uid="uid-of-submitter", containers=list(containers), **given
    )


def ended(code: int, seconds_ago: float = 60, name: str = "mine") -> dict[str, Any]:
    """The status of a container that has ended."""
    end: dict[str, Any] = {"exitCode": code, "reason": "Error" if code else "Completed"}
    end["finishedAt"] = rfc3339(NOW - timedelta(seconds=seconds_ago))
    return {"name": name, "state": {"terminated": end}}
