"""The container that submits a job, in the pod of a Job or in the head pod."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import dig, mapping
from controller.ray.api.pod_state import SUBMISSION_ID

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec

Body = dict[str, Any]

SUBMITTER: Final = "ray-job-submitter"
"""Name of the container, by which its log is read."""


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
