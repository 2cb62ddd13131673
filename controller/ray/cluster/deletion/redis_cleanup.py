"""The Job that removes a cluster's state from Redis: the head pod, with another command.

It is built from the head pod, which has everything needed to reach Redis: image, credentials,
volumes, network, scheduling.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import is_owned_by
from controller.kube.resources import JOBS
from controller.ray.api import labels
from controller.ray.api.names import checked_label
from controller.ray.pods.start_command import shell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import Job
    from controller.ray.cluster.observation import DesiredCluster

Body = dict[str, Any]

DEADLINE_SECONDS: Final = 300
"""Maximum seconds for which the Job runs."""

SECONDS_KEPT: Final = 600
"""Seconds for which a Job without owner is kept after its end before Kubernetes deletes it."""

_NOT_WANTED: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_WAITS_FOR_CERTIFICATE: Final = "wait-for-tls-ip-san"
_RESOURCES: Final = {"cpu": "200m", "memory": "256Mi"}
_PATIENCE: Final = {
    "RAY_redis_db_connect_retries": "120",
    "RAY_redis_db_connect_wait_milliseconds": "500",
}
_PROGRAM: Final = """\
import os, sys; \
from urllib.parse import urlsplit; \
from ray._private.gcs_utils import cleanup_redis_storage; \
first = os.environ['RAY_REDIS_ADDRESS'].split(',')[0].strip(); \
redis = urlsplit(first if '://' in first else 'redis://' + first); \
sys.exit(0 if cleanup_redis_storage({arguments}) else 1)"""
_ARGUMENTS: Final = {
    "host": "redis.hostname",
    "port": "redis.port or 6379",
    "username": "os.environ['REDIS_USERNAME']",
    "password": "os.environ.get('REDIS_PASSWORD', redis.password or '')",
    "use_ssl": "redis.scheme == 'rediss'",
    "storage_namespace": "os.environ['RAY_external_storage_namespace']",
}


def cleanup_job_name(cluster: str) -> str:
    """Return the name of a cluster's cleanup Job."""
    return checked_label(f"{cluster}-redis-cleanup")


def knows_redis(desired: DesiredCluster) -> bool:
    """Return whether the head, and so the Job, has the address of Redis."""
    ray: Body = desired.builder.head("")["spec"]["containers"][0]
    return "RAY_REDIS_ADDRESS" in _variables(ray) or bool(ray.get("envFrom"))


def is_cleanup_job_of(job: Job, uid: str) -> bool:
    """Return whether the Job belongs to the cluster with this uid, by its owner or its label."""
    annotations = job.metadata.annotations or {}
    return is_owned_by(job.metadata, uid) or annotations.get(labels.CLUSTER_UID) == uid


def cleanup_job(desired: DesiredCluster, *, login_shell: bool, owned: bool) -> Body:
    """Return the Job for the desired cluster.

    `owned` is False for a deletion in the foreground, where the garbage collector deletes
    everything that has an owner. Kubernetes deletes such a Job some time after its end.
    """
    identity, head = desired.identity, copy.deepcopy(desired.builder.head(""))
    name = cleanup_job_name(identity.name)
    metadata: Body = {
        "labels": head["metadata"]["labels"] | {labels.NODE_TYPE: labels.REDIS_CLEANUP},
        "annotations": head["metadata"]["annotations"] | {labels.CLUSTER_UID: identity.uid},
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": name,
            "namespace": identity.namespace,
            "ownerReferences": [identity.owner] if owned else [],
            **copy.deepcopy(metadata),
            "labels": metadata["labels"] | {labels.CREATED_BY: labels.CREATED_BY_VALUE},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            **({} if owned else {"ttlSecondsAfterFinished": SECONDS_KEPT}),
            "template": {
                "metadata": metadata,
                "spec": _cleaning(head["spec"], login_shell=login_shell),
            },
        },
    }


def _cleaning(pod_spec: Body, *, login_shell: bool) -> Body:
    """Return the head's specification, with a Ray container that only cleans up."""
    ray: Body = {k: v for k, v in pod_spec["containers"][0].items() if k not in _NOT_WANTED}
    ray["command"] = shell(login=login_shell)
    ray["args"] = [_command_line(_variables(ray))]
    ray["resources"] = {"requests": dict(_RESOURCES), "limits": dict(_RESOURCES)}
    patience = [{"name": name, "value": value} for name, value in _PATIENCE.items()]
    ray["env"] = [*ray.get("env", ()), *patience]
    before = [
        container
        for container in pod_spec.get("initContainers", ())
        if container.get("name") != _WAITS_FOR_CERTIFICATE
    ]
    cleaning = pod_spec | {"containers": [ray], "restartPolicy": "Never"}
    return cleaning | {"initContainers": before} if before else _without(cleaning, "initContainers")


def _command_line(variables: Mapping[str, Any]) -> str:
    """Return `python -c "..."`, with a user name only if needed: older Rays do not accept it."""
    arguments = ", ".join(
        f"{name}={value}"
        for name, value in _ARGUMENTS.items()
        if name != "username" or "REDIS_USERNAME" in variables
    )
    return f'python -c "{_PROGRAM.format(arguments=arguments)}"'


def _variables(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return {entry.get("name", ""): entry for entry in container.get("env", ())}


def _without(mapping: Body, key: str) -> Body:
    return {name: value for name, value in mapping.items() if name != key}
