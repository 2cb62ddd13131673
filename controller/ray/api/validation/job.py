"""Validates a RayJob: KubeRay's checks in its order, each with a remedy.

It also rejects jobs that KubeRay accepts but that would fail later for a reason that is hard to
find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.user_yaml import InvalidYaml
from controller.apimachinery.validation import Problem, read_template
from controller.kube.objects import ObjectMeta
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import MAX_JOB_NAME
from controller.ray.api.ray_options import (
    JOB_METADATA_SINCE,
    InvalidResources,
    is_at_least,
    read_entrypoint_resources,
    read_runtime_env,
)
from controller.ray.api.rayjob import CLUSTER_KEY, JobSpec, RayJob, SubmissionMode
from controller.ray.api.validation import (
    NEEDS_ENTRYPOINT,
    NOT_NEGATIVE,
    NameRule,
    read_spec,
    valid_or_problem,
)
from controller.ray.api.validation.cluster import embedded_cluster_problem
from controller.ray.api.validation.deletion_strategy import (
    STRATEGY,
    deletes_cluster,
    deletion_problems,
    keeps_everything,
)

# Checks of the submission of a RayJob and of its submitter.

_JOB_ID: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.:@=+,]*")
_WORD: Final = r"\\.|\$\(|\$\{[^{}'\"`\\$]*\}|\$\{"
_COMMAND: Final = re.compile(rf"{_WORD}|\$'|<<<?|\bcase\b|#[^\n]*|.", re.DOTALL)
_QUOTATIONS: Final = {
    "'": re.compile(r".", re.DOTALL),
    "$'": re.compile(r"\\.|.", re.DOTALL),
    "`": re.compile(r"\\.|.", re.DOTALL),
    '"': re.compile(rf"{_WORD}|.", re.DOTALL),
}
"""Match what a shell reads as one, in each kind of quotation."""

_CLOSING: Final = {"'": "'", "$'": "'", '"': '"', "`": "`", "$(": ")", "(": ")"}
_IN_TEXT: Final = frozenset({"$(", "`"})
_ONLY_A_SHELL: Final = frozenset({"${", "<<", "case"})
"""What is left to the shell: odd expansions, here-documents, and single parentheses."""

_WITH_SCRIPT: Final = frozenset({SubmissionMode.K8S_JOB, SubmissionMode.SIDECAR})
_TEMPLATE: Final = "spec.submitterPodTemplate"


def runtime_env_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield problems of the runtime environment."""
    try:
        read_runtime_env(spec.runtime_env_yaml)
    except InvalidYaml as error:
        yield Problem("spec.runtimeEnvYAML", str(error))


def _submission(spec: JobSpec) -> Iterator[Problem]:
    """Yield problems that the dashboard's API or Ray would reject."""
    mode = spec.submission_mode
    if spec.job_id and _JOB_ID.fullmatch(spec.job_id) is None:
        yield Problem(
            "spec.jobId",
            "must begin with a letter, digit or _ and continue with those and -.:@=+, because it "
            "becomes part of addresses and of a command",
        )
    if mode is not SubmissionMode.INTERACTIVE and _is_generated(spec):
        if not spec.entrypoint.strip():
            yield Problem("spec.entrypoint", NEEDS_ENTRYPOINT)
        yield from _quotes(spec)
        yield from _metadata(spec)
    if mode is SubmissionMode.HTTP:
        try:
            read_entrypoint_resources(spec.entrypoint_resources)
        except InvalidResources as error:
            yield Problem("spec.entrypointResources", str(error))


def _quotes(spec: JobSpec) -> Iterator[Problem]:
    """Yield the problem of a quote that would take the rest of the submitter's script with it."""
    opened = open_quotes(spec.entrypoint) if spec.submission_mode in _WITH_SCRIPT else []
    if opened:
        message = f"has an opening {' and in it '.join(opened)} without a closing one; add it"
        yield Problem("spec.entrypoint", message)


def open_quotes(command: str) -> list[str]:
    """Return the quotes and brackets that are open at the end, from outside; none if in doubt."""
    opened: list[str] = []
    at, before = 0, " "
    while at < len(command):
        inner = opened[-1] if opened else ""
        found = _QUOTATIONS.get(inner, _COMMAND).match(command, at)
        assert found is not None  # each matches any character
        part = found[0]
        if part.startswith("#") and inner not in _QUOTATIONS and before not in " \t\n;&|()":
            part = "#"  # no comment: it stands within a word
        at += len(part)
        if part in _ONLY_A_SHELL:
            return []
        if part == _CLOSING.get(inner):
            opened.pop()
        elif _opens(part, inner):
            opened.append(part)
        before = before if part == "\\\n" else part[-1]
    return opened


def _opens(part: str, inner: str) -> bool:
    """Return whether the part begins a quotation inside of another one; empty for none."""
    if inner in _QUOTATIONS:
        return inner == '"' and part in _IN_TEXT
    return part in _CLOSING and (part != "(" or bool(inner))


def _metadata(spec: JobSpec) -> Iterator[Problem]:
    version = mapping(spec.ray_cluster_spec).get("rayVersion") or ""
    by_script = spec.submission_mode in _WITH_SCRIPT
    if spec.metadata and by_script and version and not is_at_least(version, JOB_METADATA_SINCE):
        yield Problem(
            "spec.metadata",
            f"needs spec.rayClusterSpec.rayVersion to be 2.6.0 or later, and it is {version!r}",
        )


def _submitter(spec: JobSpec) -> Iterator[Problem]:
    config, template = spec.submitter_config, spec.submitter_pod_template
    if config is not None and config.backoff_limit is not None and config.backoff_limit < 0:
        yield Problem("spec.submitterConfig.backoffLimit", NOT_NEGATIVE)
    if template is None or spec.submission_mode not in _WITH_SCRIPT:
        return
    shape = read_template(template, _TEMPLATE)
    if isinstance(shape, Problem):
        yield shape
    policy = dig(template, "spec", "restartPolicy")
    if str(policy or "") not in {"", "Never", "OnFailure"}:
        shown = policy if isinstance(policy, str) else "no text"
        yield Problem(
            f"{_TEMPLATE}.spec.restartPolicy",
            f"is {shown}; pods of a Job need Never or OnFailure",
        )


def _is_generated(spec: JobSpec) -> bool:
    """Return whether the operator generates the submission, instead of a command of the user."""
    if spec.submission_mode is not SubmissionMode.K8S_JOB or spec.submitter_pod_template is None:
        return True
    return not dig(spec.submitter_pod_template, "spec", "containers", 0, "command")


_DEFAULT_GATES: Final = FeatureGates()
_REASON: Final = "InvalidRayJobSpec"
_SHUTDOWN: Final = "spec.shutdownAfterJobFinishes"
_TTL: Final = "spec.ttlSecondsAfterFinished"
NAME_RULE: Final = NameRule(MAX_JOB_NAME, noun="the job", reason="InvalidRayJobMetadata")


def validate_job(job: RayJob, gates: FeatureGates = _DEFAULT_GATES) -> JobSpec | Problem:
    """Return the specification if the object is valid, else all of its problems as one."""
    spec = read_spec(job, JobSpec)
    problems = partial(job_spec_problems, metadata=job.metadata, gates=gates)
    return valid_or_problem(job, NAME_RULE, spec, problems, _REASON)


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
    """Yield all problems of a specification, most basic first."""
    yield from _mode(spec)
    yield from _shutdown(spec)
    yield from deletion_problems(spec, gates)
    yield from _selection(spec)
    yield from _interactive(spec)
    yield from _sidecar(spec)
    yield from _cluster(spec, metadata, gates)
    yield from runtime_env_problems(spec)
    yield from _limits(spec)
    yield from _submission(spec)
    yield from _submitter(spec)


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
        yield Problem(_TTL, NOT_NEGATIVE)
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
    for field in _retries(spec):
        yield Problem(
            field, f"must be 0 with {selector}: retries need new clusters", against=(selector,)
        )


def _retries(spec: JobSpec) -> Iterator[str]:
    """Yield the fields that ask for retries."""
    if spec.backoff_limit > 0:
        yield "spec.backoffLimit"
    if spec.disruption_backoff_limit > 0:
        yield "spec.disruptionBackoffLimit"


def ignored_cluster(spec: JobSpec) -> str:
    """Return a warning if the job has a cluster that is not created; empty otherwise."""
    if not spec.cluster_selector or spec.ray_cluster_spec is None:
        return ""
    return (
        "spec.rayClusterSpec: has no effect beside spec.clusterSelector, which names an existing "
        "cluster; remove one of the two"
    )


def _needs_own_cluster(spec: JobSpec) -> bool:
    """Return whether the job could not run on an existing cluster either."""
    strategy = spec.deletion_strategy
    deletes = strategy is not None and deletes_cluster(strategy)
    return spec.submission_mode is SubmissionMode.SIDECAR or any(_retries(spec)) or deletes


def _interactive(spec: JobSpec) -> Iterator[Problem]:
    for field in _retries(spec) if spec.submission_mode is SubmissionMode.INTERACTIVE else ():
        yield Problem(
            field,
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
    for name, limit in (
        ("backoffLimit", spec.backoff_limit),
        ("disruptionBackoffLimit", spec.disruption_backoff_limit),
    ):
        if limit < 0:
            yield Problem(f"spec.{name}", f"is {limit}; it must not be negative")
