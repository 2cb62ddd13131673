"""The parts that one concern adds to a pod, so that a pod is the sum of its concerns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodParts:
    """Parts of a pod; those of a container are for the main one.

    Attributes:
        volumes: volumes of the pod.
        mounts: mounts of the main container.
        env: environment variables of the main container.
        init_containers: init containers of the pod.
    """

    volumes: tuple[Body, ...] = ()
    mounts: tuple[Body, ...] = ()
    env: tuple[Body, ...] = ()
    init_containers: tuple[Body, ...] = ()

    def __add__(self, other: PodParts) -> PodParts:
        """Return the parts of both, in this order."""
        return PodParts(
            self.volumes + other.volumes,
            self.mounts + other.mounts,
            self.env + other.env,
            self.init_containers + other.init_containers,
        )


def variable(name: str, value: str) -> Body:
    """Return a variable with a value; Go leaves an empty value out."""
    return {"name": name, "value": value} if value else {"name": name}


def field_variable(name: str, path: str) -> Body:
    """Return a variable with the value of a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def container(name: str, image: str, **fields: Any) -> Body:
    """Return a container without the fields that are empty."""
    return {"name": name, "image": image, **{key: each for key, each in fields.items() if each}}


def as_list(bodies: tuple[Body, ...]) -> list[Body]:
    """Return the bodies as a field of another body."""
    return [dict(each) for each in bodies]
