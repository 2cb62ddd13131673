"""Creates objects in growing steps: 1, 2, 4, ... at once (EXP-10).

A quota or an admission webhook that refuses every create then costs a few requests instead of a
thousand.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from controller.kube.resources import Resource
    from controller.runtime.reconcile.plan import Create, Write

MAX_WIDTH = 64
"""Creates of one group that are sent at once, at most."""

SlowStartGroup: TypeAlias = "tuple[Resource[Any], str]"
"""Resource and scope: creates that are alike, so that one failure predicts the others."""


class SlowStart:
    """The slow start of one plan, group by group.

    Args:
        widths: creates at once that each group has reached in the last batch of the plan.
    """

    def __init__(self, widths: Mapping[SlowStartGroup, int]) -> None:
        self._widths = dict(widths)
        self._failed: set[SlowStartGroup] = set()

    @property
    def widths(self) -> Mapping[SlowStartGroup, int]:
        """Creates at once that each group has reached, for the next batch."""
        return self._widths

    def record_failure(self, write: Write) -> None:
        """Begin no more creates in the group of this write."""
        self._failed.add(_group_of(write))

    async def run(
        self, creates: Sequence[Create], send: Callable[[Sequence[Create]], Awaitable[None]]
    ) -> None:
        """Send all creates. The groups do not wait for each other.

        Args:
            creates: of any groups.
            send: sends some creates at once, and calls `record_failure` for each that failed.
        """
        groups: dict[SlowStartGroup, list[Create]] = {}
        for create in creates:
            groups.setdefault(_group_of(create), []).append(create)
        async with asyncio.TaskGroup() as tasks:
            for group, members in groups.items():
                tasks.create_task(self._run_group(group, members, send))

    async def _run_group(
        self,
        group: SlowStartGroup,
        creates: Sequence[Create],
        send: Callable[[Sequence[Create]], Awaitable[None]],
    ) -> None:
        while creates and group not in self._failed:
            width = self._widths.get(group, 1)
            await send(creates[:width])
            creates = creates[width:]
            self._widths[group] = min(2 * width, MAX_WIDTH)


def _group_of(write: Write) -> SlowStartGroup:
    return write.target.resource, write.target.scope
