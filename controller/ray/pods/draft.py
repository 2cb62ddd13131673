"""A Ray pod under construction: what the features of a cluster add their parts to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.ray.pods.environment import Environment
    from controller.ray.pods.start_command import Role

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodDraft:
    """A pod whose parts may still be changed.

    Attributes:
        role: head or worker.
        body: the pod; nobody else holds its parts.
        parameters: of `ray start`.
        env: variables of the Ray container, put into the body at the end.
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
        """The Ray container: always the first."""
        return self.spec["containers"][0]
