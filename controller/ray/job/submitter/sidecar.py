"""SidecarMode: the submitter is a container of the head pod."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.ray.api.feature_gates import SIDECAR_SUBMITTER_RESTART
from controller.ray.api.ports import DASHBOARD_PORT
from controller.ray.api.raycluster import ClusterSpec
from controller.ray.job.submitter.container import add_variables, default_container, run_script
from controller.ray.job.submitter.script import Dashboard, submission_script
from controller.ray.pods.features.authentication import add_token_to_container

if TYPE_CHECKING:
    from controller.ray.api.rayjob import JobSpec
    from controller.ray.job.settings import JobSettings

Body = dict[str, Any]

_DASHBOARD: Final = "dashboard"


def with_sidecar(spec: JobSpec, cluster: str, job_id: str, settings: JobSettings) -> Body:
    """Return the specification of the job's cluster with a submitter in the head.

    Args:
        spec: specification of the RayJob, valid and with a cluster of its own.
        cluster: name that the RayCluster will have.
        job_id: the submission id.
        settings: settings of the RayJob controller.
    """
    changed: Body = copy.deepcopy(spec.ray_cluster_spec or {})
    parsed = msgspec.convert(changed, ClusterSpec)
    pod: Body = changed["headGroupSpec"]["template"]["spec"]
    port = _dashboard_port(pod["containers"][0])
    restarts = settings.feature_gates.enabled(SIDECAR_SUBMITTER_RESTART)
    dashboard = Dashboard(
        f"http://127.0.0.1:{port}", f"http://localhost:{port}", repeatable=restarts
    )
    container = default_container(parsed)
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
