"""Two-way connections to pods: what `kubectl exec`, `attach` and `cp` ask of the kubelet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from controller.devcluster.apiserver.messages import ResourcePath

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
"""Channels. The last message of the kubelet is a `Status` on `ERROR`; the client's messages on
`RESIZE` are sizes of its terminal."""

CONNECTIONS = frozenset({"attach", "exec", "portforward"})
"""Subresources of pods that need a two-way connection."""


class Channels(Protocol):
    """The client's end of a connection."""

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next message and its channel; empty data ends the channel.

        None when the client has gone, unless the session is cancelled then.
        """
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Send a message; does nothing when the client has gone."""
        ...


class ByteStream(Protocol):
    """The client's end of a connection of bytes."""

    async def receive(self) -> bytes | None:
        """Return the next bytes; None when the client has gone."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; does nothing when the client has gone."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionRequest:
    """The pod and command to which a client wants to be connected.

    Attributes:
        where: names the pod and the subresource.
        pod: the pod.
        query: parameters that occur once.
        command: command of `exec`.
    """

    where: ResourcePath
    pod: dict[str, Any]
    query: Mapping[str, str]
    command: tuple[str, ...]

    def wants(self, name: str) -> bool:
        """Return whether a parameter is true."""
        return asks_for(self.query, name)


def asks_for(query: Mapping[str, str], name: str) -> bool:
    """Return whether a parameter of a connection is true."""
    return query.get(name, "").lower() in {"1", "true"}


class Session(Protocol):
    """Serves one connection to its end."""

    def __call__(self, channels: Channels) -> Awaitable[None]:
        """Serve the connection."""
        ...


class ConnectionHook(Protocol):
    """The kubelet's part in a connection."""

    def __call__(self, request: ConnectionRequest) -> Session:
        """Prepare a session.

        Raises:
            ApiError: it is not possible.
        """
        ...
