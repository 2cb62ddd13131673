"""Everything that is made for the RayJob of a manifest, as plain documents."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from controller.ray.api import RayCluster, RayJob, SubmissionMode
from controller.ray.api.raycluster import parse_spec
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.children.services import stable_head_service
from controller.ray.job.attempt import cluster_body
from controller.ray.job.submitter import SubmissionTarget, submission, submitter_job
from controller.ray.settings import RaySettings
from tests.ray.job.rayjobs import valid
from tests.ray.pods.golden_pods import DEFAULTED

CLUSTER = "CLUSTER"
JOB_ID = "JOB-ID"
SETTINGS = RaySettings()


def made_for(raw: dict[str, Any], existing: dict[str, Any] | None = None) -> Iterator[Any]:
    """RayCluster and head service unless the job chose a cluster; then what is submitted.

    Args:
        raw: manifest of the RayJob.
        existing: manifest of the RayCluster that it chose.
    """
    job = stored(raw)
    spec = valid(job)
    cluster = msgspec.convert(existing, RayCluster) if existing else None
    if cluster is None:
        body = cluster_body(job, spec, CLUSTER, JOB_ID, SETTINGS)
        yield body
        cluster = msgspec.convert(body, RayCluster)
        yield stable_head_service(
            RAYJOBS,
            job.metadata,
            cluster,
            parse_spec(cluster),
            (),
            domain=SETTINGS.cluster_domain,
            cluster_ip=SETTINGS.head_cluster_ip_service,
        )
    name, mode = cluster.metadata.name, spec.submission_mode
    address = f"{name}-head-svc.default.svc.cluster.local:8265"
    if mode is SubmissionMode.K8S_JOB:
        target = SubmissionTarget(name, parse_spec(cluster), address, JOB_ID)
        yield submitter_job(job, spec, target, SETTINGS)
    if mode is SubmissionMode.HTTP:
        yield submission(spec, JOB_ID).body()


def stored(raw: dict[str, Any]) -> RayJob:
    """The job as the API server stores it."""
    raw = copy.deepcopy(raw)
    meta = raw["metadata"]
    meta.setdefault("name", f"{meta.pop('generateName', '')}abcde")
    meta |= {"namespace": "default", "uid": f"uid-of-{meta['name']}"}
    cluster = raw["spec"].get("rayClusterSpec")
    if isinstance(cluster, dict) and "workerGroupSpecs" in cluster:
        groups = cluster["workerGroupSpecs"]
        cluster["workerGroupSpecs"] = [DEFAULTED | group for group in groups]
    return msgspec.convert(raw, RayJob)
