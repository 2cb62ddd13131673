"""Creates and deletes objects in growing steps: 1, 2, 4, ... at once (EXP-10).

A quota or an admission webhook that refuses every create or delete then costs a few requests
instead of a thousand.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from controller.runtime.plan import verb_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from controller.kube.resources import Resource
    from controller.runtime.plan import Write

MAX_WIDTH = 64
"""Maximum writes of one group that are sent at once."""

SlowStartGroup: TypeAlias = "tuple[str, Resource[Any], str]"
"""Verb, resource and scope: writes that are alike, so that one failure predicts the others."""


class SlowStart:
    """The slow start of one plan, group by group.

    Args:
        widths: number of writes at once that each group reached in the plan's last batch.
    """

    def __init__(self, widths: Mapping[SlowStartGroup, int]) -> None:
        self._widths = dict(widths)
        self._failed: set[SlowStartGroup] = set()

    @property
    def widths(self) -> Mapping[SlowStartGroup, int]:
        """Width that each group has reached, for the next batch."""
        return self._widths

    def record_failure(self, write: Write) -> None:
        """Send no more writes in the group of this one."""
        self._failed.add(_group_of(write))

    async def run(
        self, writes: Sequence[Write], send: Callable[[Sequence[Write]], Awaitable[None]]
    ) -> None:
        """Send all writes. The groups do not wait for each other.

        Args:
            writes: writes of any groups.
            send: sends some writes at once, and calls `record_failure` for each that failed.
        """
        groups: dict[SlowStartGroup, list[Write]] = {}
        for write in writes:
            groups.setdefault(_group_of(write), []).append(write)
        async with asyncio.TaskGroup() as tasks:
            for group, members in groups.items():
                tasks.create_task(self._run_group(group, members, send))

    async def _run_group(
        self,
        group: SlowStartGroup,
        writes: Sequence[Write],
        send: Callable[[Sequence[Write]], Awaitable[None]],
    ) -> None:
        while writes and group not in self._failed:
            width = self._widths.get(group, 1)
            await send(writes[:width])
            writes = writes[width:]
            self._widths[group] = min(2 * width, MAX_WIDTH)


def _group_of(write: Write) -> SlowStartGroup:
    return verb_of(write), write.target.resource, write.target.scope
