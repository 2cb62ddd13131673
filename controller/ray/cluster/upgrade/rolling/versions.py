"""Decides whether pods of a new template can join a running cluster.

Nodes of different versions of Ray or Python do not join one cluster. Ray itself reports the running
version. The version of an image follows from the tag of Ray's own images, or from
`spec.rayVersion`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import dig
from controller.ray.api.pod_state import ray_container

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import Pod

_IMAGES: Final = frozenset({"ray", "ray-ml", "ray-llm"})
_TAG: Final = re.compile(r"(\d+\.\d+\.\d+)([.-].*)?")
_PYTHON: Final = re.compile(r"-py(\d+)(-|$)")


class Compatibility(Enum):
    """The ability of an image's nodes to join."""

    SAME = "the versions are the same"
    DIFFERENT = "the versions differ"
    UNKNOWN = "the version of the image is not known"


@dataclass(frozen=True, slots=True)
class ImageVersion:
    """The versions in the name of an image.

    Attributes:
        ray: version of Ray, such as `2.60.0`; empty if the name has none.
        python: version of Python, such as `310`; empty if the name has none.
    """

    ray: str = ""
    python: str = ""

    @classmethod
    def of(cls, image: str) -> ImageVersion:
        """Return the versions of one of Ray's own images, from any registry."""
        path, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
        found = _TAG.fullmatch(tag) if path in _IMAGES else None
        if found is None:
            return cls()
        python = _PYTHON.search(tag)
        return cls(found[1], python[1] if python else "")


@dataclass(frozen=True, slots=True)
class RunningRay:
    """The running Ray.

    Attributes:
        version: version that Ray reports; empty if unknown.
        image: image of the head's container.
    """

    version: str
    image: str

    def compare(self, image: str, ray_version: str) -> tuple[Compatibility, str]:
        """Return whether nodes of the image can join, and a clause about why not.

        Args:
            image: image of the new template's Ray container.
            ray_version: `spec.rayVersion`, which counts if the image's name has no version.
        """
        if image == self.image:
            return Compatibility.SAME, ""
        named, present = ImageVersion.of(image), ImageVersion.of(self.image)
        wanted = named.ray or ray_version
        if wanted and self.version and wanted != self.version:
            source = f"image {image}" if named.ray else "spec.rayVersion"
            return Compatibility.DIFFERENT, (
                f"{source} says Ray {wanted}, and the cluster runs Ray {self.version}"
            )
        if named.python and present.python and named.python != present.python:
            return Compatibility.DIFFERENT, (
                f"image {image} has another version of Python than the head's {self.image}"
            )
        is_known = bool(wanted and self.version)
        return (Compatibility.SAME if is_known else Compatibility.UNKNOWN), ""


def image_of_template(template: Mapping[str, Any]) -> str:
    """Return the image of a template's Ray container, which is its first one."""
    return str(dig(template, "spec", "containers", 0, "image") or "")


def image_of_pod(pod: Pod) -> str:
    """Return the image of the pod's Ray container."""
    container = ray_container(pod)
    return container.image if container is not None else ""
