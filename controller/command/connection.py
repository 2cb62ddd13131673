"""A client for one command, with the credentials that its arguments choose."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import controller
from controller.kube.client import Client
from controller.kube.errors import (
    ConfigurationError,
    Forbidden,
    KubeError,
    NotSent,
    PathNotFound,
    Paused,
    Unauthorized,
)
from controller.kube.http import HttpTransport
from controller.kube.kubeconfig import load_credentials
from controller.kube.resources import INSTALL_CRDS


def with_remedy(error: KubeError) -> str:
    """Return the message of the error, and the remedy where there is a usual one."""
    match error:
        case Paused():
            return str(error)
        case NotSent():
            remedy = "check that the cluster runs, and that --kubeconfig and --context choose it"
        case Unauthorized():
            remedy = "renew the credentials of this context"
        case Forbidden():
            remedy = "ask for this right, or choose another account with --context"
        case PathNotFound():
            remedy = (
                f"install the definitions: {INSTALL_CRDS} (those of "
                "Workspaces: manta crds --kind workspace), or choose another cluster with --context"
            )
        case _:
            return str(error)
    return f"{error}; {remedy}"


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


class ConnectionOptions(Protocol):
    """The arguments of a command that choose the credentials: see `manta run`."""

    @property
    def kubeconfig(self) -> str | None: ...  # noqa: D102
    @property
    def context(self) -> str | None: ...  # noqa: D102


async def run_connected(
    command: str, options: ConnectionOptions, run: Callable[[Client, str], Awaitable[int]]
) -> int:
    """Run a command with a client; returns its exit status, 1 after an error, which is printed.

    Args:
        command: its name, as in `status`.
        options: its arguments.
        run: gets the client, and the namespace of the kubeconfig's context, which may be empty.

    Raises:
        ConfigurationError: no usable credentials, or the command raised it.
    """
    agent = f"manta-{command}/{controller.__version__}"
    opened = connected(agent, kubeconfig=options.kubeconfig, context=options.context)
    async with opened as (client, namespace):
        try:
            return await run(client, namespace)
        except ConfigurationError:
            raise
        except KubeError as error:
            sys.stderr.write(f"manta {command}: {with_remedy(error)}\n")
            return 1
