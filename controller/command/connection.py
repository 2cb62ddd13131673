"""A client for one command, with the credentials that its arguments choose."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeVar, TypeVarTuple

from msgspec import Struct

import controller
from controller.command.process import interruptible
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


class ConnectionOptions(Struct, frozen=True, kw_only=True):
    """The arguments that all commands about objects of a cluster have.

    An empty namespace is that of the kubeconfig's context, which is the current one if it is None.
    """

    namespace: str = ""
    output: Literal["text", "json"] = "text"
    kubeconfig: str | None = None
    context: str | None = None


OptionsT = TypeVar("OptionsT", bound=ConnectionOptions)
More = TypeVarTuple("More")


class CommandFailed(Exception):  # noqa: N818  named for what happened
    """A command could not do what it was asked; the message says why and what to do next."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def run_connected(
    command: str,
    options: OptionsT,
    run: Callable[[Client, str, OptionsT, *More], Awaitable[int]],
    *more: *More,
) -> int:
    """Run a command with a client, until its end or a signal; returns its exit status.

    `run` gets the client, the namespace of objects without one, the options, and what else is
    given.

    Raises:
        ConfigurationError: no usable credentials, or the command raised it.
    """

    async def connect() -> int:
        agent = f"manta-{command}/{controller.__version__}"
        opened = connected(agent, kubeconfig=options.kubeconfig, context=options.context)
        async with opened as (client, namespace):
            try:
                place = options.namespace or namespace or "default"
                return await run(client, place, options, *more)
            except ConfigurationError:
                raise
            except (CommandFailed, KubeError) as error:
                text = with_remedy(error) if isinstance(error, KubeError) else str(error)
                sys.stderr.write(f"manta {command}: {text}\n")
                return 1

    return asyncio.run(interruptible(connect()))
