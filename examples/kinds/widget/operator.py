"""An operator with the Widget kind only: `python -m examples.kinds.widget.operator`."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from controller.kube.client import Client
from controller.kube.http import HttpTransport
from controller.kube.load import load_credentials
from controller.runtime.logs import configure_logging
from controller.runtime.operator import Operator
from controller.runtime.settings import Settings
from examples.kinds.widget.kind import WidgetKind

if TYPE_CHECKING:
    from collections.abc import Callable


def widget_operator(
    client: Client,
    settings: Settings,
    *,
    wall: Callable[[], datetime],
    rng: random.Random,
) -> Operator:
    """The operator, not started yet."""
    return Operator(
        client,
        [WidgetKind()],
        settings,
        clock=asyncio.get_running_loop(),
        wall=wall,
        rng=rng,
        registry=CollectorRegistry(),
    )


async def main() -> int:
    """Run until interrupted, with the kubeconfig or the pod's service account."""
    transport = HttpTransport(await load_credentials(), user_agent="widget-operator")
    client = Client(transport, user_agent="widget-operator", clock=asyncio.get_running_loop())
    operator = widget_operator(
        client, Settings(), wall=lambda: datetime.now(UTC), rng=random.Random()
    )
    try:
        return await operator.run(asyncio.Event())
    finally:
        await transport.aclose()


if __name__ == "__main__":
    configure_logging()
    raise SystemExit(asyncio.run(main()))
