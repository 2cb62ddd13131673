"""The Job that removes a cluster's state from Redis, with image and credentials of the head."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.metadata import is_owned_by
from controller.kube.objects import Job, KubeObject, Pod
from controller.kube.resources import JOBS
from controller.ray.api import labels
from controller.ray.api.names import TLS_VARIABLES, checked_label
from controller.ray.api.raycluster import RayCluster
from controller.ray.children import body_of
from controller.ray.cluster.children import child_metadata
from controller.ray.cluster.observation import DesiredCluster
from controller.ray.pods.environment import shell
from controller.ray.settings import RaySettings
from controller.runtime import reasons

Body = dict[str, Any]

DEADLINE_SECONDS: Final = 300
"""Maximum seconds for which the Job runs."""

SECONDS_KEPT: Final = 600
"""Seconds for which a Job without owner is kept after its end before Kubernetes deletes it."""

_RESOURCES: Final = {"cpu": "200m", "memory": "256Mi"}
_HEAD: Final = "spec.headGroupSpec.template"
_ANEW: Final = "and delete this Job, which is then created anew"
REFUSED_POD_REMEDIES: Final = {
    reasons.QUOTA_NEEDS_RESOURCES: "give the namespace a LimitRange with defaults for them",
    reasons.LIMIT_RANGE_VIOLATED: (
        f"ask for another LimitRange: this Job always has {_RESOURCES['cpu']} of CPU and "
        f"{_RESOURCES['memory']} of memory"
    ),
    reasons.POD_SECURITY_VIOLATED: f"set the securityContext in {_HEAD}, {_ANEW}",
    reasons.ADMISSION_DENIED: (f"ask for another policy, or change {_HEAD} accordingly, {_ANEW}"),
    reasons.OBJECT_INVALID: f"correct this field in {_HEAD}, {_ANEW}",
}
"""What a user can do about a pod of the Job that is refused."""

_PATIENCE: Final = {
    "RAY_redis_db_connect_retries": "120",
    "RAY_redis_db_connect_wait_milliseconds": "500",
}
_CREDENTIALS: Final = re.compile("://.*@")
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


def state_in_redis(cluster: RayCluster, heads: Iterable[Pod]) -> str:
    """Return where the state of a cluster is, for a person who must remove it.

    The specification may be of any shape, and no longer say it.
    """
    options = mapping(dig(cluster.spec, "gcsFaultToleranceOptions"))
    env = dig(cluster.spec, "headGroupSpec", "template", "spec", "containers", 0, "env")
    entries = map(mapping, cast("list[Any]", env) if isinstance(env, list) else ())
    variables = {str(entry.get("name")): entry for entry in entries}
    annotated = [_annotated(cluster), *map(_annotated, heads)]
    namespaces = (
        _value_or_source(variables.get("RAY_external_storage_namespace")),
        options.get("externalStorageNamespace"),
        *annotated,
        cluster.metadata.uid,
    )
    address = options.get("redisAddress") or _value_or_source(variables.get("RAY_REDIS_ADDRESS"))
    where = f" at {_CREDENTIALS.sub('://', str(address))}" if address else ""
    namespace = next((each for each in namespaces if each), "")
    return f"external storage namespace {namespace} in Redis{where}"


def _annotated(obj: KubeObject) -> str:
    return (obj.metadata.annotations or {}).get(labels.EXTERNAL_STORAGE_NAMESPACE, "")


def _value_or_source(variable: Mapping[str, Any] | None) -> str:
    """Return the value of a variable, or where the kubelet takes it from; empty without one."""
    if not variable:
        return ""
    for kind, of in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if found := mapping(dig(variable, "valueFrom", kind)):
            return f"(key {found.get('key')} of {of} {found.get('name')})"
    return str(variable.get("value") or "")


def is_cleanup_job_of(job: Job, uid: str) -> bool:
    """Return whether the Job belongs to the cluster with this uid, by its owner or its label."""
    annotations = job.metadata.annotations or {}
    return is_owned_by(job.metadata, uid) or annotations.get(labels.CLUSTER_UID) == uid


def cleanup_job(desired: DesiredCluster, settings: RaySettings, *, owned: bool) -> Body:
    """Return the Job for the desired cluster.

    `owned` is False for a deletion in the foreground, where the garbage collector deletes
    everything that has an owner. Kubernetes deletes such a Job some time after its end.
    """
    identity, head = desired.identity, desired.builder.head("")
    env: list[Body] = head["spec"]["containers"][0]["env"]
    if desired.spec.has_mtls:  # only Redis is called, and the certificate may be deleted before
        env = [each for each in env if each["name"] not in TLS_VARIABLES]
    given: dict[str, str] = head["metadata"]["annotations"]
    metadata: Body = {
        "labels": derived_labels(head["metadata"]["labels"])
        | {labels.NODE_TYPE: labels.REDIS_CLEANUP},
        "annotations": {
            **settings.pod_annotations,
            **derived_annotations(given, env),
            labels.EXTERNAL_STORAGE_NAMESPACE: given[labels.EXTERNAL_STORAGE_NAMESPACE],
            labels.CLUSTER_UID: identity.uid,
        },
    }
    pod = derived_pod(desired.spec.head_group_spec.template["spec"], env)
    _clean(pod["containers"][0], login_shell=settings.login_shell)
    own = metadata["labels"] | {labels.CREATED_BY: labels.CREATED_BY_VALUE}
    of_job = child_metadata(identity, cleanup_job_name(identity.name), own)
    of_job["annotations"] = dict(metadata["annotations"])
    spec: Body = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "template": {"metadata": metadata, "spec": pod},
    }
    if not owned:
        of_job["ownerReferences"] = []
        spec["ttlSecondsAfterFinished"] = SECONDS_KEPT
    return body_of(JOBS, of_job, spec=spec)


def _clean(ray: Body, *, login_shell: bool) -> None:
    """Give the container its command, few resources, and patience with Redis.

    The kubelet keeps the end of the log of a Job that may be deleted before anybody reads it.
    """
    ray["command"] = shell(login=login_shell)
    ray["args"] = [_command_line(_variables(ray))]
    ray["resources"] = {"requests": dict(_RESOURCES), "limits": dict(_RESOURCES)}
    ray["terminationMessagePolicy"] = "FallbackToLogsOnError"
    ray["env"] += [{"name": name, "value": value} for name, value in _PATIENCE.items()]


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


# The pod of the Job, made from the template of the head.
#
# It takes from the template what these lists name: what it needs to be admitted, to pull the image
# and to reach what the head reaches. All else is the head's alone: scheduling gates, queues,
# topology, claims, ports, probes, init containers.


_POD: Final = (
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostNetwork",
    "hostUsers",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "tolerations",
)
_CONTAINER: Final = ("name", "image", "imagePullPolicy", "envFrom", "securityContext")
_VOLUMES: Final = frozenset({"configMap", "csi", "downwardAPI", "emptyDir", "projected", "secret"})
"""Sources of credentials and certificates, and of places that a read-only image writes to.

A claim may be attached to another node, and a path of the host may be missing there.
"""

_ANNOTATIONS: Final = (
    "azure.workload.identity",
    "cni.cncf.io",
    "consul.hashicorp.com",
    "container.apparmor.security.beta.kubernetes.io",
    "eks.amazonaws.com",
    "iam.amazonaws.com",
    "istio.io",
    "kuma.io",
    "linkerd.io",
    "vault.hashicorp.com",
    "vault.security.banzaicloud.io",
)
"""Domains of annotations by which webhooks give a pod its network, its identity and secrets."""

_SCHEDULING: Final = (
    "kai.scheduler",
    "koordinator.sh",
    "run.ai",
    "runai",
    "scheduling.k8s.io",
    "sigs.k8s.io",
    "volcano.sh",
    "x-k8s.io",
    "yunikorn.apache.org",
)
"""Domains of labels that put a pod into a queue or a gang. All others may matter to policies."""

_REFERENCE: Final = re.compile(r"metadata\.annotations\['([^']+)'\]")


def derived_pod(template: Mapping[str, Any], env: Iterable[Mapping[str, Any]]) -> Body:
    """Return the specification of a pod with only the Ray container, which has no command yet."""
    ray: Body = template["containers"][0]
    volumes = [each for each in template.get("volumes", ()) if _VOLUMES & each.keys()]
    mounts = [
        mount
        for mount in ray.get("volumeMounts", ())
        if any(mount.get("name") == volume.get("name") for volume in volumes)
    ]
    container = _taken(ray, _CONTAINER) | {"env": [e for e in env if not _measures(e)]}
    pod = _taken(template, _POD) | {"containers": [container], "restartPolicy": "Never"}
    nodes = dig(template, "affinity", "nodeAffinity")
    if nodes:
        pod["affinity"] = {"nodeAffinity": nodes}
    if mounts:
        mounted = {mount["name"] for mount in mounts}
        container["volumeMounts"] = mounts
        pod["volumes"] = [volume for volume in volumes if volume.get("name") in mounted]
    return copy.deepcopy(pod)


def derived_labels(of_head: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the head but for those that put it into a queue or a gang."""
    return {key: of_head[key] for key in of_head if not _is_of(key, _SCHEDULING)}


def derived_annotations(
    of_head: Mapping[str, str], env: Iterable[Mapping[str, Any]]
) -> dict[str, str]:
    """Return annotations for webhooks, and those to which variables refer."""
    paths = (str(dig(each, "valueFrom", "fieldRef", "fieldPath") or "") for each in env)
    named = {found[1] for path in paths if (found := _REFERENCE.fullmatch(path))}
    return {key: of_head[key] for key in of_head if key in named or _is_of(key, _ANNOTATIONS)}


def _taken(given: Mapping[str, Any], fields: Iterable[str]) -> Body:
    return {field: given[field] for field in fields if field in given}


def _measures(variable: Mapping[str, Any]) -> bool:
    """Return whether it holds the size of a container, which may not be in this pod."""
    return dig(variable, "valueFrom", "resourceFieldRef") is not None


def _is_of(key: str, domains: Iterable[str]) -> bool:
    domain = key.rpartition("/")[0] or key
    return any(domain == each or domain.endswith(f".{each}") for each in domains)
