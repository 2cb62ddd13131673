"""A Redis namespace for each cluster: two heads in one destroy each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.ray.api import labels

if TYPE_CHECKING:
    from collections.abc import Mapping

Body = dict[str, Any]

STORAGE_NAMESPACE_VARIABLE: Final = "RAY_external_storage_namespace"
"""Variable of the head that names its Redis namespace, whatever the options say."""


def separate_redis(spec: Body, annotations: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Change the specification so that no other cluster has its Redis namespace.

    Without a namespace chosen by the user it is the cluster's uid. One that the user chose, in the
    options, in a variable of the head or in an annotation, is followed by the cluster's name.

    Args:
        spec: of the cluster; changed in place.
        annotations: those that the user gave for it.
        cluster: its name.

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
    for variable in cast("list[Body]", variables or []):
        if variable.get("name") == STORAGE_NAMESPACE_VARIABLE and variable.get("value"):
            variable["value"] += f"-{cluster}"
    by_annotation = annotations.get(labels.EXTERNAL_STORAGE_NAMESPACE)
    return (
        {labels.EXTERNAL_STORAGE_NAMESPACE: f"{by_annotation}-{cluster}"} if by_annotation else {}
    )
