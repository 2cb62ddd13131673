"""Gives each cluster a Redis namespace: two heads that share one destroy each other's state."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.ray.api import labels

if TYPE_CHECKING:
    from collections.abc import Mapping

Body = dict[str, Any]

STORAGE_NAMESPACE_VARIABLE: Final = "RAY_external_storage_namespace"
"""Variable of the head that names its Redis namespace, whatever the options say."""

_CHOSEN: Final = "MANTA_CHOSEN_STORAGE_NAMESPACE"
"""Variable of the head with a namespace from a Secret or the like, which the kubelet inserts."""


def separate_redis(spec: Body, annotations: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Change the specification so that no other cluster has its Redis namespace.

    Without a namespace chosen by the user it is the cluster's uid. The cluster's name is appended
    to one that the user chose in the options, a variable of the head or an annotation, and to one
    from a Secret or a ConfigMap, which only the kubelet reads.

    Args:
        spec: specification of the cluster; changed in place.
        annotations: those that the user gave for it.
        cluster: name of the cluster.

    Returns:
        The annotation that it needs, if the user's names a namespace.
    """
    options = mapping(spec.get("gcsFaultToleranceOptions"))
    if chosen := options.get("externalStorageNamespace"):
        spec["gcsFaultToleranceOptions"] = {
            **options,
            "externalStorageNamespace": f"{chosen}-{cluster}",
        }
    variables = dig(spec, "headGroupSpec", "template", "spec", "containers", 0, "env")
    if variables:
        variables[:] = chain.from_iterable(
            _separated(variable, cluster) for variable in cast("list[Body]", variables)
        )
    by_annotation = annotations.get(labels.EXTERNAL_STORAGE_NAMESPACE)
    return (
        {labels.EXTERNAL_STORAGE_NAMESPACE: f"{by_annotation}-{cluster}"} if by_annotation else {}
    )


def _separated(variable: Body, cluster: str) -> tuple[Body, ...]:
    if variable.get("name") != STORAGE_NAMESPACE_VARIABLE:
        return (variable,)
    if variable.get("value"):
        return (variable | {"value": f"{variable['value']}-{cluster}"},)
    if variable.get("valueFrom"):
        chosen = variable | {"name": _CHOSEN}
        return chosen, {"name": STORAGE_NAMESPACE_VARIABLE, "value": f"$({_CHOSEN})-{cluster}"}
    return (variable,)
