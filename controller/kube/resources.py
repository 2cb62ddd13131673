"""API resources: group, version, plural name, scope and typed view."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from controller.kube import objects
from controller.kube.objects import KubeObject

T = TypeVar("T", bound=KubeObject)


class Resource(msgspec.Struct, Generic[T], frozen=True, cache_hash=True):
    """One resource of the API, as discovery lists it; each read of a cache needs its hash.

    Attributes:
        group: API group, empty for the core group.
        version: API version without the group, `v1`.
        plural: lower-case plural name as used in paths, `pods`.
        view: the partial Struct into which objects are decoded.
        part: name of a subset of the objects that is watched separately, such as those with a
            label. It does not change requests.
    """

    group: str
    version: str
    plural: str
    kind: str
    view: type[T]
    namespaced: bool = True
    part: str = ""

    @property
    def api_version(self) -> str:
        """`v1` for the core group, else `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of a collection or object below the server's root, not URL-encoded.

        An empty `namespace` of a namespaced resource means all namespaces.
        """
        root = f"/apis/{self.group}" if self.group else "/api"
        parts = [root, self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def __str__(self) -> str:
        """Return the name that kubectl and metrics use: `pods`, `rayclusters.ray.io`.

        The name of a part follows it.
        """
        name = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{name} ({self.part})" if self.part else name


PODS = Resource("", "v1", "pods", "Pod", objects.Pod)
SERVICES = Resource("", "v1", "services", "Service", objects.Service)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", objects.ConfigMap)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", objects.Namespace, namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", objects.Node, namespaced=False)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", KubeObject)
JOBS = Resource("batch", "v1", "jobs", "Job", objects.Job)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", objects.StatefulSet)
INSTALL_CRDS: Final = "manta crds | kubectl apply --server-side --force-conflicts -f -"
"""Installs and upgrades the definitions, whoever wrote them last, such as Helm."""

CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    objects.CustomResourceDefinition,
    namespaced=False,
)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", KubeObject)
SECRETS = Resource("", "v1", "secrets", "Secret", objects.Secret)

CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", objects.PersistentVolumeClaim
)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", objects.Ingress)
NETWORK_POLICIES = Resource(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", objects.NetworkPolicy
)
DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", objects.PodDisruptionBudget
)
ROUTES = Resource("route.openshift.io", "v1", "routes", "Route", objects.Route)
GATEWAYS = Resource("gateway.networking.k8s.io", "v1", "gateways", "Gateway", objects.Gateway)
HTTP_ROUTES = Resource(
    "gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute", objects.HTTPRoute
)
CONTROLLER_REVISIONS = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", objects.ControllerRevision
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", objects.Role)
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", objects.RoleBinding
)
VOLCANO_POD_GROUPS = Resource(
    "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", objects.Gang
)
PLUGIN_POD_GROUPS = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", objects.Gang
)
WORKLOADS = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", objects.Workload)
POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", objects.PodGroup)
ISSUERS = Resource("cert-manager.io", "v1", "issuers", "Issuer", KubeObject)
CERTIFICATES = Resource("cert-manager.io", "v1", "certificates", "Certificate", objects.Certificate)
