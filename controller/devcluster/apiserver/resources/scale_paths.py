"""The fields of a custom kind that hold numbers of replicas, and these numbers as a Scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.devcluster.apiserver.jsondata import Json, child
from controller.devcluster.apiserver.protocol.status import invalid_value

if TYPE_CHECKING:
    from controller.devcluster.apiserver.protocol.status import StatusCause

SCALE: Final[Json] = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Paths in the objects of a kind, as its definition has them.

    Attributes:
        wanted: path of the desired number of replicas.
        present: path of the present number.
        selector: path of its pods' selector; may be empty.
    """

    wanted: str
    present: str
    selector: str = ""

    @classmethod
    def of(cls, subresource: Json) -> ScalePaths:
        """Read `subresources.scale` of a definition."""
        return cls(
            subresource.get("specReplicasPath", ""),
            subresource.get("statusReplicasPath", ""),
            subresource.get("labelSelectorPath", ""),
        )

    def scale(self, object_: Json) -> Json:
        """Return the Scale of an object; its number is missing if the object has none."""
        metadata: Json = object_["metadata"]
        wanted, selector = _value(object_, self.wanted), _value(object_, self.selector)
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
            "spec": {} if wanted is None else {"replicas": wanted},
            "status": {"replicas": _value(object_, self.present) or 0}
            | ({"selector": selector} if selector else {}),
        }

    def set_wanted(self, object_: Json, replicas: int) -> None:
        """Write the desired number into an object, in place."""
        *names, last = _names(self.wanted)
        for name in names:
            object_ = object_.setdefault(name, {})
        object_[last] = replicas

    def problems(self, object_: Json) -> list[StatusCause]:
        """List the errors in the wanted number, in any write of the object."""
        found = _value(object_, self.wanted)
        if type(found) is int and found < 0:
            return [invalid_value(self.wanted, found, "should be a non-negative integer")]
        return []


def _value(object_: Json, path: str) -> Any:
    *names, last = _names(path)
    for name in names:
        object_ = child(object_, name)
    return object_.get(last)


def _names(path: str) -> list[str]:
    return path.strip(".").split(".")
