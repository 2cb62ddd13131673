"""The Kubernetes Job that submits a RayJob in K8sJobMode, and follows its log."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import owner_reference
from controller.kube.resources import JOBS
from controller.ray.api import labels
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.job.names import submitter_name
from controller.ray.job.submitter.container import add_variables, default_pod, run_script
from controller.ray.job.submitter.script import Dashboard, submission_script
from controller.ray.pods.features.authentication import add_token_to_pod

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.api.rayjob import JobSpec, RayJob
    from controller.ray.job.settings import JobSettings

Body = dict[str, Any]

DEFAULT_BACKOFF_LIMIT: Final = 2
"""Retries of the submitter if `spec.submitterConfig` does not set them."""
_TEMPLATE_METADATA: Final = ("annotations", "finalizers")


@dataclass(frozen=True, slots=True)
class SubmissionTarget:
    """The address at which a job is submitted.

    Attributes:
        cluster: name of the RayCluster.
        spec: its specification, valid.
        address: `host:port` of its dashboard, as in `status.dashboardURL`.
        job_id: the submission id.
    """

    cluster: str
    spec: ClusterSpec
    address: str
    job_id: str


def submitter_job(
    job: RayJob, spec: JobSpec, target: SubmissionTarget, settings: JobSettings
) -> Body:
    """Return the Job that submits `job`; `spec` is its valid specification."""
    config, own = spec.submitter_config, _labels(job)
    limit = None if config is None else config.backoff_limit
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": submitter_name(job.metadata),
            "namespace": job.metadata.namespace,
            "labels": own,
            "ownerReferences": [owner_reference(RAYJOBS, job.metadata)],
        },
        "spec": {
            "backoffLimit": DEFAULT_BACKOFF_LIMIT if limit is None else limit,
            "template": _template(spec, target, settings, own),
        },
    }


def _template(
    spec: JobSpec, target: SubmissionTarget, settings: JobSettings, own: dict[str, str]
) -> Body:
    given = copy.deepcopy(spec.submitter_pod_template or {})
    metadata: Body = given.get("metadata", {})
    pod: Body = given.get("spec") or default_pod(target.spec)
    pod.setdefault("restartPolicy", "Never")
    container: Body = pod["containers"][0]
    if not container.get("image"):  # it only changes some of the default
        default = default_pod(target.spec)
        container.update(default["containers"][0] | container)
        pod.update(default | pod)
    if not container.get("command"):
        url = target.address
        url = url if url.startswith("http://") else f"http://{url}"
        script = submission_script(spec, target.job_id, Dashboard(url, url, repeatable=True))
        run_script(container, script, login_shell=settings.login_shell)
    add_variables(container, address=target.address, job_id=target.job_id)
    add_token_to_pod(pod, container, target.cluster, target.spec.auth_options)
    kept = {key: metadata[key] for key in _TEMPLATE_METADATA if metadata.get(key)}
    found_by = own | {labels.NODE_TYPE: labels.SUBMITTER}
    return {"metadata": {"labels": metadata.get("labels", {}) | found_by, **kept}, "spec": pod}


def _labels(job: RayJob) -> dict[str, str]:
    return {
        labels.ORIGIN_NAME: job.metadata.name,
        labels.ORIGIN_KIND: RAYJOBS.kind,
        labels.CREATED_BY: labels.CREATED_BY_VALUE,
    }
