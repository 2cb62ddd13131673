"""The shell script that submits a job and follows its log, token by token as in KubeRay.

Users depend on how the shell reads it: the entrypoint is not quoted, so the submitter's own shell
handles `;`, `&&` and pipes in it, and it expands variables in JSON arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.go_encoding import go_json, go_quote
from controller.ray.api.fields.runtime_env import read_runtime_env

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.rayjob import JobSpec

_HEALTHY = (
    "import sys, urllib.request; "
    "sys.exit(b'success' not in urllib.request.urlopen('{url}', timeout=10).read())"
)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The addresses of the dashboard for the script.

    Attributes:
        url: `http://host:port`.
        health_url: the same, for health checks.
        repeatable: whether the script may run again after it was stopped; it then first asks
            whether the job has already been submitted.
    """

    url: str
    health_url: str
    repeatable: bool


def submission_script(spec: JobSpec, job_id: str, dashboard: Dashboard) -> str:
    """Return the script; `spec` is valid.

    Args:
        spec: specification of the job.
        job_id: the submission id; empty leaves the choice to Ray.
        dashboard: the dashboard that gets the job.
    """
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
