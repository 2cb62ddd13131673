"""The cluster that a command reaches, and the object that it is about, `KIND/NAME`."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Protocol

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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence

    from controller.kube.resources import Resource


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


_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
"""A kind or a name: no part of a path or of a query, which would lead to another object."""


def parse_target(
    words: Sequence[str], resources: Collection[Resource[Any]], participle: str
) -> tuple[Resource[Any], str]:
    """Read `KIND/NAME` or `KIND NAME`.

    Args:
        words: the words of the command line.
        resources: the kinds that the command knows.
        participle: what the command does to them, to refuse others: `rolled out`.

    Raises:
        ConfigurationError: it is something else, or there is no such kind.
    """
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(map(_PART.fullmatch, parts)):
        kind = next(iter(resources)).kind.lower()
        name = parts[0] if len(parts) == 1 and _PART.fullmatch(parts[0]) else "example"
        raise ConfigurationError(
            f"{' '.join(words)!r} names no object; write {kind}/NAME, for example {kind}/{name}"
        )
    return parse_kind(parts[0], resources, participle), parts[1]


def parse_kind(word: str, resources: Collection[Resource[Any]], participle: str) -> Resource[Any]:
    """Return the kind of `RayCluster`, `rayclusters`, `rayclusters.ray.io` and the like.

    Raises:
        ConfigurationError: there is none; the message names the nearest one.
    """
    name, _, group = word.lower().partition(".")
    for resource in resources:
        if name in {resource.kind.lower(), resource.plural} and (
            group.removeprefix(f"{resource.version}.") in {"", resource.group}
        ):
            return resource
    kinds = [each.kind.lower() for each in resources]
    raise ConfigurationError(
        f"{word!r} cannot be {participle}; {', '.join(kinds[:-1])} and {kinds[-1]} can"
        f"{suggestion(name.removesuffix('s'), kinds) or f'; an object is {kinds[0]}/{name}'}"
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean KNOWN?`; empty if nothing is near."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
