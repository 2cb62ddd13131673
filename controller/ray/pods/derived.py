"""Pods that do something for a cluster, made from the template of its head.

Such a pod takes from the template what these lists name: what it needs to be admitted, to pull the
image and to reach what the head reaches. All else is the head's alone: scheduling gates, queues,
topology, claims, ports, probes, init containers.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import dig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Body = dict[str, Any]

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
    """Return the specification of a pod with only the Ray container, which has no command yet.

    Args:
        template: the specification of the head in its template.
        env: variables of the head's Ray container, those of its features too.
    """
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
