"""Who has changed or deleted an object of ours, as far as the object tells.

A field manager is all that the API server keeps of a writer. It names nobody who deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.custom_object import mapping

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta
    from controller.ray.api.raycluster import RayCluster

_OURS: Final = ("manta", "kuberay-operator")
"""Beginnings of the field managers of operators of Ray, which suspend no cluster by themselves."""

_PRUNERS: Final = (
    ("argocd.argoproj.io/", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/", "Flux"),
    ("helm.toolkit.fluxcd.io/", "Flux"),
    ("app.kubernetes.io/instance", "Argo CD or another tool that tracks by this label"),
)
"""Labels and annotations by which GitOps tools recognise what they may prune, with the tool."""


def suspension_of(cluster: RayCluster) -> str:
    """Return a clause about who has set `spec.suspend` of a RayCluster; empty if unknown."""
    entries = [each for each in cluster.metadata.managed_fields if each.owns_suspend]
    last = max(entries, key=lambda each: each.time or "", default=None)
    if last is None:
        return ""
    what = f"{last.operation or 'Update'} at {last.time}"
    if last.manager.startswith(_OURS):
        return f"an admission webhook set it when {last.manager} wrote the RayCluster ({what})"
    return f"set by {last.manager} ({what})"


def suspended_by_others(cluster: RayCluster | None, owner: str, *, asked: bool) -> str:
    """Return a sentence about a child that is suspended although its owner is not; else empty.

    Args:
        cluster: the child.
        owner: kind of its owner.
        asked: whether the owner's specification asks for it.
    """
    if cluster is None or asked or mapping(cluster.spec).get("suspend") is not True:
        return ""
    author = suspension_of(cluster) or "the API server does not tell who set it"
    return (
        f"spec.suspend of RayCluster {cluster.metadata.name} is true, which this {owner} does not "
        f"ask for: {author}; stop what sets it, or set it to false on the RayCluster"
    )


def deleted_by_others(owner: ObjectMeta, what: str) -> str:
    """Return a clause about a child that somebody else has deleted.

    Args:
        owner: metadata of its owner, from which it had labels and annotations.
        what: the child, as the beginning of the clause.
    """
    found = {**(owner.labels or {}), **(owner.annotations or {})}
    for key in sorted(found):
        for prefix, tool in _PRUNERS:
            if key.startswith(prefix):
                return (
                    f"{what} was deleted by somebody else; it had {key} from this object, by which "
                    f"{tool} prunes: exclude RayClusters there"
                )
    return f"{what} was deleted by somebody else; the audit log of the API server names the client"
