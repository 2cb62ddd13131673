"""Validates a RayJob: KubeRay's checks in its order, each with a remedy.

It also rejects jobs that KubeRay accepts but that would fail later for a reason that is hard to
find.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.problem import Problem
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import MAX_JOB_NAME
from controller.ray.api.rayjob import CLUSTER_KEY, JobSpec, SubmissionMode, parse_job_spec
from controller.ray.api.validation.deletion_strategy import (
    STRATEGY,
    deletes_cluster,
    deletion_problems,
    keeps_everything,
)
from controller.ray.api.validation.embedded_cluster import embedded_cluster_problem
from controller.ray.api.validation.object_name import NameRule
from controller.ray.api.validation.read_spec import read_spec, valid_or_problem
from controller.ray.api.validation.submission import runtime_env_problems, submission_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import ObjectMeta
    from controller.ray.api.rayjob import RayJob

_DEFAULT_GATES: Final = FeatureGates()
_REASON: Final = "InvalidRayJobSpec"
_SHUTDOWN: Final = "spec.shutdownAfterJobFinishes"
_TTL: Final = "spec.ttlSecondsAfterFinished"
_NAME_RULE: Final = NameRule(MAX_JOB_NAME, noun="the job", reason="InvalidRayJobMetadata")


def validate_job(job: RayJob, gates: FeatureGates = _DEFAULT_GATES) -> JobSpec | Problem:
    """Return the specification if the object is valid, else all of its problems as one."""
    spec = read_spec(job, parse_job_spec)
    problems = partial(job_spec_problems, metadata=job.metadata, gates=gates)
    return valid_or_problem(job, _NAME_RULE, spec, problems, _REASON)


def validate_job_status(spec: JobSpec, deployment_status: str) -> Problem | None:
    """Return the problem of a valid job in its present state; None if there is none."""
    if deployment_status == "Waiting" and spec.submission_mode is not SubmissionMode.INTERACTIVE:
        return Problem(
            "status.jobDeploymentStatus",
            "is Waiting, which only a job with submissionMode InteractiveMode may be; set "
            "spec.submissionMode back, or create the job anew",
            "InvalidRayJobStatus",
        )
    return None


def job_spec_problems(
    spec: JobSpec, metadata: ObjectMeta, gates: FeatureGates
) -> Iterator[Problem]:
    """Yield all problems of a specification, most basic first.

    Args:
        spec: the specification, found at `spec`.
        metadata: metadata of the RayJob; its annotations apply to the cluster.
        gates: the enabled features.
    """
    yield from _mode(spec)
    yield from _shutdown(spec)
    yield from deletion_problems(spec, gates)
    yield from _selection(spec)
    yield from _interactive(spec)
    yield from _sidecar(spec)
    yield from _cluster(spec, metadata, gates)
    yield from runtime_env_problems(spec)
    yield from _limits(spec)
    yield from submission_problems(spec)


def _mode(spec: JobSpec) -> Iterator[Problem]:
    known = [mode.value for mode in SubmissionMode]
    if spec.given_mode and spec.given_mode not in known:
        yield Problem("spec.submissionMode", f"{spec.given_mode!r} is none of {', '.join(known)}")


def _shutdown(spec: JobSpec) -> Iterator[Problem]:
    shutdown, strategy = spec.shutdown_after_job_finishes, spec.deletion_strategy
    stays = spec.selected_cluster and spec.submission_mode is not SubmissionMode.SIDECAR
    if spec.suspend and not (shutdown or stays or strategy):
        yield Problem(
            "spec.suspend",
            f"needs {_SHUTDOWN} to be true, or {STRATEGY}, which say what becomes of the cluster",
        )
    if spec.ttl_seconds_after_finished < 0:
        yield Problem(_TTL, "must not be negative")
    if spec.ttl_seconds_after_finished <= 0:
        return
    if strategy is not None and strategy.deletion_rules:
        yield Problem(
            _TTL,
            f"has no effect beside {STRATEGY}.deletionRules; give each rule a "
            "condition.ttlSeconds instead",
            against=(f"{STRATEGY}.deletionRules",),
        )
    elif strategy is not None and keeps_everything(strategy):
        outcomes = f"{STRATEGY}.onSuccess", f"{STRATEGY}.onFailure"
        yield Problem(
            _TTL,
            f"needs {_SHUTDOWN} to be true, which cannot be while {' or '.join(outcomes)} is "
            f"DeleteNone; leave it out, or use {STRATEGY}.deletionRules with a "
            "condition.ttlSeconds",
            against=(_SHUTDOWN, *outcomes),
        )
    elif not shutdown:
        yield Problem(_TTL, f"needs {_SHUTDOWN} to be true; or leave it out")


def _selection(spec: JobSpec) -> Iterator[Problem]:
    selector = "spec.clusterSelector"
    if not spec.cluster_selector:
        if spec.ray_cluster_spec is None:
            another = "" if _needs_own_cluster(spec) else f", or {selector} to use an existing one"
            yield Problem("spec.rayClusterSpec", f"must be set, to create a cluster{another}")
        return
    if not spec.selected_cluster:
        yield Problem(selector, f"needs the name of a cluster under the key {CLUSTER_KEY}")
    if spec.submission_mode is SubmissionMode.SIDECAR:
        yield Problem(
            selector,
            "cannot be used with spec.submissionMode SidecarMode, which puts a container into a "
            "new head; use another mode",
            against=("spec.submissionMode",),
        )
    if spec.backoff_limit > 0:
        yield Problem(
            "spec.backoffLimit",
            f"must be 0 with {selector}: retries need new clusters",
            against=(selector,),
        )


def _needs_own_cluster(spec: JobSpec) -> bool:
    """Return whether the job could not run on an existing cluster either."""
    strategy = spec.deletion_strategy
    deletes = strategy is not None and deletes_cluster(strategy)
    return spec.submission_mode is SubmissionMode.SIDECAR or spec.backoff_limit > 0 or deletes


def _interactive(spec: JobSpec) -> Iterator[Problem]:
    if spec.submission_mode is SubmissionMode.INTERACTIVE and spec.backoff_limit > 0:
        yield Problem(
            "spec.backoffLimit",
            "must be 0 with spec.submissionMode InteractiveMode: you submit the job",
            against=("spec.submissionMode",),
        )


def _sidecar(spec: JobSpec) -> Iterator[Problem]:
    if spec.submission_mode is not SubmissionMode.SIDECAR:
        return
    for field, value in (
        ("spec.submitterPodTemplate", spec.submitter_pod_template),
        ("spec.submitterConfig", spec.submitter_config),
    ):
        if value is not None:
            yield Problem(
                field,
                "cannot be used with spec.submissionMode SidecarMode, which has no pod of its own; "
                "remove it",
                against=("spec.submissionMode",),
            )
    policy = dig(spec.ray_cluster_spec, "headGroupSpec", "template", "spec", "restartPolicy")
    if str(policy or "") not in {"", "Never"}:
        yield Problem(
            "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy",
            f"is {policy}; spec.submissionMode SidecarMode needs Never, or leave it out",
            against=("spec.submissionMode",),
        )


def _cluster(spec: JobSpec, metadata: ObjectMeta, gates: FeatureGates) -> Iterator[Problem]:
    """Yield problems that would make the created RayCluster invalid."""
    if spec.ray_cluster_spec is None:
        return
    if dig(spec.ray_cluster_spec, "authOptions", "enableK8sTokenAuth"):
        yield Problem(
            "spec.rayClusterSpec.authOptions.enableK8sTokenAuth",
            "cannot be true for the cluster of a RayJob: submitters have no such token; use "
            "authOptions.mode token alone",
        )
    problem = embedded_cluster_problem(spec.ray_cluster_spec, "RayJob", metadata.annotations, gates)
    if problem is not None:
        yield problem.under("spec.rayClusterSpec", _REASON)


def _limits(spec: JobSpec) -> Iterator[Problem]:
    for name, seconds in (
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("preRunningDeadlineSeconds", spec.pre_running_deadline_seconds),
    ):
        if seconds is not None and seconds <= 0:
            yield Problem(f"spec.{name}", f"is {seconds}; it must be positive, or left out")
    if spec.backoff_limit < 0:
        yield Problem("spec.backoffLimit", f"is {spec.backoff_limit}; it must not be negative")
