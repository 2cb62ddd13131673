"""The submitter of a RayJob: its container, its script, and the Job or the sidecar that runs it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.conditions import job_end, template_containers, time_of
from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.metadata import owner_reference
from controller.apimachinery.user_yaml import go_json, go_quote
from controller.kube.objects import Container, ContainerStatus, Job, ObjectMeta, Pod
from controller.kube.resources import JOBS
from controller.ray.api import FeatureGates, labels
from controller.ray.api.batch_schedulers import WORKLOAD_API
from controller.ray.api.feature_gates import SIDECAR_SUBMITTER_RESTART
from controller.ray.api.names import DASHBOARD_PORT, SUBMITTER
from controller.ray.api.pod_state import SUBMISSION_ID, container_with, is_unstarted
from controller.ray.api.ray_options import read_entrypoint_resources, read_runtime_env
from controller.ray.api.raycluster import ClusterSpec
from controller.ray.api.rayjob import RAYJOBS, JobSpec, RayJob, SubmissionMode
from controller.ray.dashboard import JobSubmission
from controller.ray.diagnosis.pod import exit_code, final_error, with_quote
from controller.ray.head import HeadIncarnation
from controller.ray.job.facts import SubmitterFact
from controller.ray.pods.features import add_token_to_container, add_token_to_pod
from controller.ray.pods.gang import NO_MARKS, SUBMITTER_GROUP, Marks, marks_of
from controller.ray.settings import RaySettings
from controller.runtime.plan import LogTail

# The container that submits a job, in the pod of a Job or in the head pod.

Body = dict[str, Any]

_TAKEN: Final = ("imagePullSecrets", "securityContext")
"""What the pod of a Job takes from the head's template: what its image and its admission need."""

_TAKEN_BY_CONTAINER: Final = ("imagePullPolicy", "securityContext")


def default_pod(cluster: ClusterSpec) -> Body:
    """Return the specification of a Job's pod for a RayJob without `submitterPodTemplate`."""
    given = mapping(dig(cluster.head_group_spec.template, "spec"))
    taken = {field: copy.deepcopy(given[field]) for field in _TAKEN if given.get(field)}
    return {"containers": [default_container(cluster)], **taken}


def default_container(cluster: ClusterSpec) -> Body:
    """Return the container without its command: the head's image, few resources.

    A selected cluster may have any shape. Without an image the API server refuses the Job.
    """
    ray = mapping(dig(cluster.head_group_spec.template, "spec", "containers", 0))
    image = ray.get("image")
    taken = {field: copy.deepcopy(ray[field]) for field in _TAKEN_BY_CONTAINER if ray.get(field)}
    return {
        "name": SUBMITTER,
        "image": image if isinstance(image, str) else "",
        **taken,
        "resources": {
            "requests": {"cpu": "500m", "memory": "200Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
    }


def run_script(container: Body, script: str, *, login_shell: bool) -> None:
    """Make the container run the script with bash, which stops at the first failing command."""
    container["command"] = ["/bin/bash", "-cel" if login_shell else "-ce", "--"]
    container["args"] = [script]


def add_variables(container: Body, *, address: str, job_id: str) -> None:
    """Add the variables for the dashboard's address and the submission id."""
    added = {
        "PYTHONUNBUFFERED": "1",
        "RAY_DASHBOARD_ADDRESS": address,
        SUBMISSION_ID: job_id,
    }
    entries = [{"name": name, "value": value} for name, value in added.items()]
    container["env"] = [*container.get("env", ()), *entries]


# The shell script that submits a job and follows its log, token by token as in KubeRay.
#
# Users depend on how the shell reads it: the entrypoint is not quoted, so the submitter's own shell
# handles `;`, `&&` and pipes in it, and it expands variables in JSON arguments.

_HEALTHY = (
    "import sys, urllib.request; "
    "sys.exit(b'success' not in urllib.request.urlopen('{url}', timeout=10).read())"
)


class Dashboard(msgspec.Struct, frozen=True):
    """The addresses of the dashboard for the script.

    Attributes:
        repeatable: whether the script may run again after it was stopped; it then first asks
            whether the job has already been submitted.
    """

    url: str
    health_url: str
    repeatable: bool


def submission_script(spec: JobSpec, job_id: str, dashboard: Dashboard) -> str:
    """Return the script; `spec` is valid."""
    tokens = [*_wait(dashboard.health_url)]
    at = ("--address", dashboard.url)
    if dashboard.repeatable:
        tokens += ["if", "!", "ray", "job", "status", *at, job_id, ">/dev/null", "2>&1", ";"]
        tokens += ["then", *_submit(spec, job_id, [*at, "--no-wait"]), "fi", ";"]
        tokens += ["ray", "job", "logs", *at, "--follow", job_id]
    else:
        tokens += _submit(spec, job_id, at)
    return " ".join(tokens)


def _wait(url: str) -> Iterator[str]:
    """Wait until the dashboard reports that it is healthy."""
    health = f"{url}/api/gcs_healthz"
    yield from ("until", "python3", "-c", f'"{_HEALTHY.format(url=health)}"', ">/dev/null", "2>&1")
    yield from (";", "do", "echo", f'"Waiting for the dashboard of Ray at {url} ..."', ";")
    yield from ("sleep", "2", ";", "done", ";")


def _submit(spec: JobSpec, job_id: str, options: tuple[str, ...] | list[str]) -> Iterator[str]:
    yield from ("ray", "job", "submit", *options)
    if spec.runtime_env_yaml:
        yield from (
            "--runtime-env-json",
            go_quote(go_json(read_runtime_env(spec.runtime_env_yaml))),
        )
    if spec.metadata:
        yield from ("--metadata-json", go_quote(go_json(spec.metadata)))
    if job_id:
        yield from ("--submission-id", job_id)
    if spec.entrypoint_num_cpus > 0:
        yield from ("--entrypoint-num-cpus", f"{spec.entrypoint_num_cpus:f}")
    if spec.entrypoint_num_gpus > 0:
        yield from ("--entrypoint-num-gpus", f"{spec.entrypoint_num_gpus:f}")
    if spec.entrypoint_resources:
        yield from ("--entrypoint-resources", go_quote(spec.entrypoint_resources))
    entrypoint = _command(spec.entrypoint)
    yield from ("--", f"{entrypoint}\n") if _needs_a_line(entrypoint) else ("--", entrypoint, ";")


def _command(entrypoint: str) -> str:
    """Return the entrypoint without comments above its command, and what continues nothing."""
    text = entrypoint.strip()
    while text.startswith("#"):
        text = text.partition("\n")[2].lstrip()
    backslashes = len(text) - len(text.rstrip("\\"))
    return text[:-1].rstrip() if backslashes % 2 else text


def _needs_a_line(entrypoint: str) -> bool:
    """Return whether `;` after the entrypoint would be part of it, or one separator too many.

    It follows a comment, the end of a here-document, or another separator.
    """
    return "#" in entrypoint or "<<" in entrypoint or entrypoint.endswith((";", "&"))


# SidecarMode: the submitter is a container of the head pod.

_DASHBOARD: Final = "dashboard"


def with_sidecar(spec: JobSpec, cluster: str, job_id: str, settings: RaySettings) -> Body:
    """Return the specification of the job's cluster with a submitter in the head."""
    changed: Body = copy.deepcopy(spec.ray_cluster_spec or {})
    parsed = msgspec.convert(changed, ClusterSpec)
    pod: Body = changed["headGroupSpec"]["template"]["spec"]
    port = _dashboard_port(pod["containers"][0])
    restarts = settings.feature_gates.enabled(SIDECAR_SUBMITTER_RESTART)
    dashboard = Dashboard(
        f"http://127.0.0.1:{port}", f"http://localhost:{port}", repeatable=restarts
    )
    container = default_container(parsed)
    for given in [each for each in pod["containers"][1:] if each.get("name") == SUBMITTER]:
        container |= given  # it changes some of ours, such as resources
        pod["containers"].remove(given)
    script = submission_script(spec, job_id, dashboard)
    run_script(container, script, login_shell=settings.login_shell)
    add_variables(container, address="", job_id=job_id)
    add_token_to_container(pod, container, cluster, parsed.auth_options)
    if restarts:
        container["restartPolicy"] = "OnFailure"
    pod["containers"].append(container)
    pod["restartPolicy"] = "Never"
    return changed


def _dashboard_port(container: Body) -> int:
    for port in container.get("ports", ()):
        if port.get("name") == _DASHBOARD:
            return port["containerPort"]
    return DASHBOARD_PORT


def marks_of_job(
    job: RayJob, spec: JobSpec, cluster: ClusterSpec, group: str, settings: RaySettings
) -> Marks:
    """Return what the batch scheduler must find on a part of a RayJob.

    Kubernetes' own API knows the job's cluster only. A submitter to a cluster that exists is in no
    gang.
    """
    scheduler = settings.batch_scheduler
    if scheduler is None or scheduler is WORKLOAD_API:
        return NO_MARKS
    marks = marks_of(scheduler, job.metadata, cluster, group, submitter_pod(spec, cluster))
    return replace(marks, annotations={}) if spec.selected_cluster else marks


# The Kubernetes Job that submits a RayJob in K8sJobMode, and follows its log.
#
# All attempts have the same one: the previous Job must be gone.

DEFAULT_BACKOFF_LIMIT: Final = 2
"""Retries of the submitter if `spec.submitterConfig` does not set them."""
_TEMPLATE_METADATA: Final = ("annotations", "finalizers")


class SubmissionTarget(msgspec.Struct, frozen=True):
    """The address at which a job is submitted.

    Attributes:
        address: `host:port` of its dashboard, as in `status.dashboardURL`.
        job_id: the submission id.
    """

    cluster: str
    spec: ClusterSpec
    address: str
    job_id: str


def submitter_name(job: ObjectMeta) -> str:
    """Return the name of the Job."""
    return job.name


def submitter_job(
    job: RayJob, spec: JobSpec, target: SubmissionTarget, settings: RaySettings
) -> Body:
    """Return the Job that submits `job`; `spec` is its valid specification."""
    config, own = spec.submitter_config, _labels(job)
    limit = None if config is None else config.backoff_limit
    template = _template(spec, target, settings, own)
    marks = marks_of_job(job, spec, target.spec, SUBMITTER_GROUP, settings)
    marks.mark(template["metadata"], template["spec"])
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
            "template": template,
        },
    }


def submitter_pod(spec: JobSpec, cluster: ClusterSpec) -> Body:
    """Return the specification of the submitter's pod as the user wants it, in a new object."""
    given = copy.deepcopy(spec.submitter_pod_template or {})
    pod: Body = given.get("spec") or default_pod(cluster)
    container: Body = pod["containers"][0]
    if not container.get("image"):  # it only changes some of the default
        default = default_pod(cluster)
        container.update(default["containers"][0] | container)
        pod.update(default | pod)
    return pod


def _template(
    spec: JobSpec, target: SubmissionTarget, settings: RaySettings, own: dict[str, str]
) -> Body:
    metadata: Body = copy.deepcopy(spec.submitter_pod_template or {}).get("metadata", {})
    pod = submitter_pod(spec, target.spec)
    pod.setdefault("restartPolicy", "Never")
    container: Body = pod["containers"][0]
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


# The operator's request to submit a RayJob in HTTPMode.


def submission(spec: JobSpec, job_id: str) -> JobSubmission:
    """Return the request for a valid specification under this submission id."""
    return JobSubmission(
        entrypoint=spec.entrypoint,
        submission_id=job_id,
        runtime_env=read_runtime_env(spec.runtime_env_yaml),
        metadata=dict(spec.metadata),
        entrypoint_num_cpus=max(0.0, spec.entrypoint_num_cpus),
        entrypoint_num_gpus=max(0.0, spec.entrypoint_num_gpus),
        entrypoint_resources=read_entrypoint_resources(spec.entrypoint_resources),
    )


# The state of the submitter, which is a Job or a container in the head pod.
#
# The submitter submits the job and prints its log. Its exit code is not the job's result.

_RESTARTS: Final = 2
"""Restarts of the container in the head pod until it counts as failed (KubeRay)."""


class SubmitterState(msgspec.Struct, frozen=True):
    """The state of an attempt's submitter.

    Attributes:
        ended: time of its end; None while it runs.
        failure: description of its failure; empty if it did not fail.
        final_error: what its container said to the kubelet at the end: `, saying: ...`.
        log: request that reads the end of its log; None if it has none.
        unstarted: whether its Job has had no pod so far.
        never_ran: whether no container of its Job that submits has been started so far.
        outlived: whether others keep its pod alive, so that its Job never finishes.
    """

    fact: SubmitterFact = SubmitterFact.NONE
    ended: datetime | None = None
    failure: str = ""
    final_error: str = ""
    log: LogTail | None = None
    unstarted: bool = False
    never_ran: bool = False
    outlived: bool = False

    @property
    def has_ended(self) -> bool:
        """True if it has succeeded or failed."""
        return self.fact in {SubmitterFact.SUCCEEDED, SubmitterFact.FAILED}


NO_SUBMITTER: Final = SubmitterState()


def observe_submitter(
    mode: SubmissionMode | None,
    job: Job | None,
    pods: Sequence[Pod],
    head: HeadIncarnation | None,
    gates: FeatureGates,
) -> SubmitterState:
    """Return the state of the submitter; `job` is the Job that the RayJob owns, with its pods."""
    if mode is SubmissionMode.SIDECAR:
        return _container(head, restarts=gates.enabled(SIDECAR_SUBMITTER_RESTART))
    if job is not None:
        return _job(job, pods)
    if mode is SubmissionMode.K8S_JOB:
        return SubmitterState(SubmitterFact.ABSENT)
    return NO_SUBMITTER


def _job(job: Job, pods: Sequence[Pod]) -> SubmitterState:
    """Return the state by the container that submits; a terminating Job counts as absent."""
    meta, name = job.metadata, submitting_container(job)
    log = LogTail(meta.namespace, f"batch.kubernetes.io/controller-uid={meta.uid}", name)
    end = job_end(job, pods, (name,))
    if end is None:
        fact = SubmitterFact.ABSENT if meta.terminating else SubmitterFact.ACTIVE
        counts = job.status
        pod_ended = bool(counts.succeeded or counts.failed)
        waits = all(_has_not_started(pod, name) for pod in pods)
        return SubmitterState(
            fact,
            log=log,
            unstarted=not (pods or counts.active or pod_ended),
            never_ran=waits and not pod_ended,
        )
    if end.succeeded:
        return SubmitterState(SubmitterFact.SUCCEEDED, end.at, log=log, outlived=not end.finished)
    last = exit_code(end.last) if end.last else _removed(pods)
    why = "; ".join(filter(None, (last, end.reason)))
    words = final_error(end.last) if end.last else ""
    return SubmitterState(SubmitterFact.FAILED, end.at, why, words, log, outlived=not end.finished)


def _has_not_started(pod: Pod, container: str) -> bool:
    found = (each for each in pod.status.container_statuses if each.name == container)
    return is_unstarted(pod, next(found, None))


def _removed(pods: Sequence[Pod]) -> str:
    """Return why the kubelet ended a pod before its containers did; empty if it did not."""
    ends = [pod.status for pod in pods if pod.status.phase == "Failed" and pod.status.reason]
    return with_quote(ends[-1].reason, ends[-1].message) if ends else ""


def submitting_container(job: Job) -> str:
    """Return the name of the container that submits."""
    containers = msgspec.convert(template_containers(job), tuple[Container, ...])
    found = container_with(containers, SUBMISSION_ID)
    return found.name if found is not None else SUBMITTER


def _container(head: HeadIncarnation | None, *, restarts: bool) -> SubmitterState:
    if head is None:
        return SubmitterState(SubmitterFact.ABSENT)
    meta = head.pod.metadata
    cluster = (meta.labels or {}).get(labels.CLUSTER, "")
    log = LogTail(
        meta.namespace,
        f"{labels.CLUSTER}={cluster},{labels.NODE_TYPE}={labels.HEAD}",
        SUBMITTER,
    )
    for status in head.pod.status.container_statuses:
        if status.name == SUBMITTER:
            return _ended_container(status, log, restarts=restarts)
    return SubmitterState(SubmitterFact.ACTIVE, log=log)


def _ended_container(status: ContainerStatus, log: LogTail, *, restarts: bool) -> SubmitterState:
    end = status.state.terminated
    if end is not None and end.exit_code == 0:
        return SubmitterState(SubmitterFact.SUCCEEDED, time_of(end.finished_at), log=log)
    if restarts:
        end = end or status.last_state.terminated
        if end is None or status.restart_count < _RESTARTS:
            return SubmitterState(SubmitterFact.ACTIVE, log=log)
    if end is None:
        return SubmitterState(SubmitterFact.ACTIVE, log=log)
    at, words = time_of(end.finished_at), final_error(end)
    return SubmitterState(SubmitterFact.FAILED, at, exit_code(end), words, log)
