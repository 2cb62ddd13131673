"""Limits requests to the time in which this process leads."""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from controller.kube.errors import NotSent, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from controller.runtime.leaderelection.election import Fence


@asynccontextmanager
async def while_leading(fence: Fence) -> AsyncGenerator[None]:
    """Allow a request only while this process leads, and cancel it before the lease ends (LE-14).

    The limit covers waiting and retries inside the block.

    Raises:
        NotSent: this process does not lead.
        OutcomeUnknown: the request took longer than the lease is certain to hold.
    """
    if not fence.is_leader():
        raise NotSent("this process does not lead")
    left = fence.time_left()
    limit = asyncio.timeout(None if math.isinf(left) else left)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise OutcomeUnknown(
            f"no answer within the {left:.3g} s for which the lease holds"
        ) from None
