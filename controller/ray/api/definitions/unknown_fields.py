"""The pod templates in the specifications of Ray's kinds, and their unknown fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.schemas.object_schema import UnknownField, unknown_fields
from controller.runtime.reconcile.definitions.unknown_fields import UnknownFieldFinder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.apimachinery.schemas.object_schema import ObjectSchema
    from controller.ray.api.ray_object import RayObject


def unknown_field_finder() -> UnknownFieldFinder:
    """Return a function that finds the unknown fields in all pod templates of an object."""

    def find(obj: RayObject, pod: ObjectSchema) -> Iterator[UnknownField]:
        return template_fields(obj.spec, pod)

    return UnknownFieldFinder(find)


def template_fields(spec: Any, pod: ObjectSchema, path: str = "spec") -> Iterator[UnknownField]:
    """Yield the unknown fields of all pod templates in the specification of any kind.

    Args:
        spec: plain data.
        pod: the schema of pods.
        path: path of `spec`.
    """
    schema = pod.part("metadata", "spec")
    for where, template in pod_templates(mapping(spec), path):
        yield from unknown_fields(template, schema, where)


def pod_templates(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield the pod templates of a specification, each with its path."""
    yield f"{path}.headGroupSpec.template", dig(spec, "headGroupSpec", "template")
    groups = spec.get("workerGroupSpecs")
    for position, group in enumerate(cast("list[Any]", groups) if isinstance(groups, list) else ()):
        yield f"{path}.workerGroupSpecs[{position}].template", mapping(group).get("template")
    yield f"{path}.submitterPodTemplate", spec.get("submitterPodTemplate")
    for name in ("rayClusterSpec", "rayClusterConfig", "jobTemplate"):
        if name in spec:
            yield from pod_templates(mapping(spec[name]), f"{path}.{name}")
    if "template" in spec:
        yield from pod_templates(mapping(dig(spec, "template", "spec")), f"{path}.template.spec")
