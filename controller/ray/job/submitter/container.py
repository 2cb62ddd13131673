"""The container that submits a job, in the pod of a Job or in the head pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import dig
from controller.ray.api.pod_state import SUBMISSION_ID

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec

Body = dict[str, Any]

SUBMITTER: Final = "ray-job-submitter"
"""Name of the container, by which its log is read."""


def default_container(cluster: ClusterSpec) -> Body:
    """Return the container without its command: the head's image, few resources.

    A selected cluster may have any shape. Without an image the API server refuses the Job.
    """
    image = dig(cluster.head_group_spec.template, "spec", "containers", 0, "image")
    return {
        "name": SUBMITTER,
        "image": image if isinstance(image, str) else "",
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
