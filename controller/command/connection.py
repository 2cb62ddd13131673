"""A client for one command, with the credentials that its arguments choose."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from controller.kube.authentication.load import load_credentials
from controller.kube.client import Client
from controller.kube.http import HttpTransport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@asynccontextmanager
async def connected(
    user_agent: str, *, kubeconfig: str | None, context: str | None
) -> AsyncGenerator[tuple[Client, str]]:
    """Yield a client, and the namespace of the kubeconfig's context, empty if it has none.

    Raises:
        ConfigurationError: no usable credentials.
    """
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    transport = HttpTransport(credentials, user_agent=user_agent)
    try:
        client = Client(transport, user_agent=user_agent, clock=asyncio.get_running_loop())
        yield client, credentials.namespace
    finally:
        await transport.aclose()
