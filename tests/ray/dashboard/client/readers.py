"""The functions that give recorded answers a meaning, and the answers that have one."""

from __future__ import annotations

from collections.abc import Callable

from controller.ray.dashboard import client, serve
from controller.ray.dashboard import responses as answers
from controller.ray.dashboard.transport import DashboardResponse
from tests.ray.dashboard.recorded import NAMES

JOB = "demo-long"
"""The job that is asked about."""

READS: dict[str, Callable[[DashboardResponse], object]] = {
    "job": lambda answer: answers.job(answer, JOB),
    "submission": lambda answer: answers.submission(answer, JOB),
    "stop": lambda answer: answers.stop(answer, JOB),
    "deletion": lambda answer: answers.deletion(answer, JOB),
    "version": answers.version,
    "gcs_health": answers.gcs_health,
    "nodes": client.nodes,
    "serve_state": serve.serve_state,
    "serve_config_accepted": serve.serve_config_accepted,
}
MEANS_SOMETHING = {
    ("job", "job-get-running"),
    ("job", "job-get-just-after-stop"),
    ("job", "job-get-stopped"),
    # The same JSON is read by its members; nobody asks one path and gets the answer of another.
    ("submission", "job-get-running"),
    ("submission", "job-get-just-after-stop"),
    ("submission", "job-get-stopped"),
    ("stop", "job-stop"),
    ("stop", "job-stop-when-terminal"),
    ("deletion", "job-delete"),
    ("version", "version"),
    ("gcs_health", "gcs-healthz"),
    ("gcs_health", "proxy-healthz-200"),
    ("gcs_health", "agent-local-raylet-healthz"),
    *(("nodes", name) for name in NAMES if name.startswith("state-nodes")),
    *(("serve_state", name) for name in NAMES if "serve-get" in name),
    ("serve_config_accepted", "serve-put"),
    ("serve_config_accepted", "serve-delete"),
}
