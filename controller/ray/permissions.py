"""The operator's rights on the API server: KubeRay's ClusterRole, as data.

Plans must stay within it, because Manta has to run under the RBAC objects of KubeRay's chart. Tests
compare plans, and the chart's own role, with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controller.kube.resources import Resource

_ALL: Final = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})
_WITHOUT_PATCH: Final = _ALL - {"patch"}
_MADE_ONCE: Final = _WITHOUT_PATCH - {"update"}
_READ: Final = frozenset({"get", "list", "watch"})
_CHANGE: Final = frozenset({"get", "patch", "update"})

PERMISSIONS: Final[Mapping[str, frozenset[str]]] = {
    "pods": _ALL | {"deletecollection"},
    "pods/status": _ALL,
    "pods/proxy": _CHANGE,
    "pods/resize": frozenset({"patch"}),
    "services": _ALL,
    "services/status": _CHANGE,
    "services/proxy": _CHANGE | {"create"},
    "persistentvolumeclaims": _ALL,
    "secrets": _WITHOUT_PATCH,
    "serviceaccounts": _MADE_ONCE,
    "jobs.batch": _ALL,
    "leases.coordination.k8s.io": frozenset({"create", "get", "list", "update"}),
    "endpointslices.discovery.k8s.io": _READ,
    "events.events.k8s.io": frozenset({"create", "patch"}),
    "ingresses.networking.k8s.io": _ALL,
    "ingressclasses.networking.k8s.io": _READ,
    "networkpolicies.networking.k8s.io": _WITHOUT_PATCH,
    "gateways.gateway.networking.k8s.io": _WITHOUT_PATCH,
    "httproutes.gateway.networking.k8s.io": _WITHOUT_PATCH,
    "roles.rbac.authorization.k8s.io": _WITHOUT_PATCH,
    "rolebindings.rbac.authorization.k8s.io": _MADE_ONCE,
    "routes.route.openshift.io": _ALL,
} | {
    f"{plural}{part}.ray.io": verbs
    for plural in ("rayclusters", "rayjobs", "rayservices", "raycronjobs")
    for part, verbs in (
        ("", _ALL),
        ("/status", _CHANGE),
        ("/finalizers", frozenset({"update"})),
    )
}
"""Verbs by resource, written `plural/subresource.group`."""

OF_SCHEDULERS: Final[Mapping[str, frozenset[str]]] = {
    "podgroups.scheduling.volcano.sh": _WITHOUT_PATCH,
    "podgroups.scheduling.x-k8s.io": _MADE_ONCE,
    "podgroups.scheduling.k8s.io": _ALL,
    "workloads.scheduling.k8s.io": _ALL,
}
"""Rights that a chart grants only while the batch scheduler is chosen. KubeRay's may not delete
those of scheduler-plugins: there a PodGroup stays when its cluster is no longer to be a gang."""

OF_CERTIFICATES: Final[Mapping[str, frozenset[str]]] = {
    "issuers.cert-manager.io": _MADE_ONCE,
    "certificates.cert-manager.io": _WITHOUT_PATCH,
}
"""Rights that a chart grants only with the feature gate of mTLS. KubeRay's may not delete: there
issuers and certificates stay until the cluster is deleted, after its `tlsOptions` was removed."""

ADDITIONS: Final[Mapping[str, frozenset[str]]] = {
    "pods/log": frozenset({"get"}),
    "events.events.k8s.io": frozenset({"list"}),
    "controllerrevisions.apps": _WITHOUT_PATCH,
    "poddisruptionbudgets.policy": _READ | {"create", "patch", "delete"},
    "rayclusterfleets.manta.dev": _READ | {"patch"},
    "rayclusterfleets/status.manta.dev": frozenset({"patch"}),
    "rayclusterfleets/finalizers.manta.dev": frozenset({"update"}),
}
"""Rights that Manta's own chart grants beyond that. No kind of KubeRay's depends on them: without
`pods/log` a failed submitter's last words are missing, and the status says so, and the error of a
head that crashes, unless it is left for the kubelet; without `controllerrevisions` a rolling update
has no history to undo it by, without `poddisruptionbudgets` a condition says that
`spec.disruptionBudgets` has no effect, and without the list of events a second Manta outside the
cluster is not noticed, and a status says that it cannot tell why a Job has no pod."""


def granted(resource: Resource[Any], subresource: str = "") -> frozenset[str]:
    """Return the verbs on a resource; none if it is not in the table."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    name = f"{plural}.{resource.group}" if resource.group else plural
    tables = (PERMISSIONS, OF_SCHEDULERS, OF_CERTIFICATES, ADDITIONS)
    return frozenset[str]().union(*(table.get(name, frozenset()) for table in tables))
