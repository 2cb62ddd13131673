"""A Ray pod under construction, to which features add fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.ray.pods.environment import Environment
    from controller.ray.pods.start_command import Role

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodDraft:
    """A mutable pod.

    Attributes:
        role: head or worker.
        body: the pod; it shares no data with other objects.
        parameters: parameters of `ray start`.
        env: variables of the Ray container, written to the body at the end.
    """

    role: Role
    body: Body
    parameters: dict[str, str]
    env: Environment

    @property
    def annotations(self) -> dict[str, str]:
        """The pod's annotations."""
        return self.body["metadata"]["annotations"]

    @property
    def spec(self) -> Body:
        """The pod's specification."""
        return self.body["spec"]

    @property
    def ray(self) -> Body:
        """The Ray container, which is always the first."""
        return self.spec["containers"][0]
