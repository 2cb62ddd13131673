"""Checks of the submission of a RayJob and of its submitter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.problem import Problem
from controller.apimachinery.template import read_template
from controller.apimachinery.user_yaml import InvalidYaml
from controller.ray.api.fields.entrypoint_resources import (
    InvalidResources,
    read_entrypoint_resources,
)
from controller.ray.api.fields.runtime_env import read_runtime_env
from controller.ray.api.fields.version import JOB_METADATA_SINCE, is_at_least
from controller.ray.api.rayjob import SubmissionMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.rayjob import JobSpec

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


def submission_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield problems that the submitter, the dashboard's API or Ray would reject."""
    yield from _submission(spec)
    yield from _submitter(spec)


def _submission(spec: JobSpec) -> Iterator[Problem]:
    mode = spec.submission_mode
    if spec.job_id and _JOB_ID.fullmatch(spec.job_id) is None:
        yield Problem(
            "spec.jobId",
            "must begin with a letter, digit or _ and continue with those and -.:@=+, because it "
            "becomes part of addresses and of a command",
        )
    if mode is not SubmissionMode.INTERACTIVE and _is_generated(spec):
        if not spec.entrypoint.strip():
            yield Problem("spec.entrypoint", "must be set: it is the command that Ray runs")
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
        yield Problem("spec.submitterConfig.backoffLimit", "must not be negative")
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
