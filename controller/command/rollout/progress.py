"""The progress of a rollout, as data: `-o json` prints it, `text` puts it into words."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["unobserved", "rolling", "paused", "failed", "complete"]


class GroupProgress(msgspec.Struct, frozen=True, rename="camel"):
    """One group, in pods.

    Attributes:
        name: name of the group; empty for the head.
        desired: how many there should be.
        updated: how many are made from the new template.
        ready: how many can do work.
        outdated: how many are still to be replaced.
    """

    name: str = ""
    desired: int = 0
    updated: int = 0
    ready: int = 0
    outdated: int = 0


class RolloutProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The progress of one object.

    Attributes:
        state: `unobserved` until the operator has seen the present specification, `failed` if it
            will not end by itself.
        message: what the operator says, or what is waited for.
        groups: the groups; empty if the operator does not say, as with KubeRay's definitions.
    """

    state: State
    message: str = ""
    groups: tuple[GroupProgress, ...] = ()

    @property
    def is_over(self) -> bool:
        """True if there is nothing left to wait for."""
        return self.state in {"failed", "complete"}
