"""The last check before a request is sent: only a leader sends requests that may change anything.

`while_leading` limits the duration of a write. A process that was frozen may nevertheless resume
between that check and the request, so the transport checks once more (LE-14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kube.errors import NotSent

if TYPE_CHECKING:
    from controller.kube.transport import RawResponse, Request, Transport
    from controller.runtime.leaderelection.election import Fence

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class FencedTransport:
    """A `Transport` that changes nothing unless this process leads.

    Args:
        inner: sends the requests.
        fence: whether this process leads.
    """

    def __init__(self, inner: Transport, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence

    async def request(self, request: Request) -> RawResponse:
        """Send a request; see `Transport.request`.

        Raises:
            NotSent: also if it may change something and this process does not lead.
        """
        if request.method not in _READING and not self._fence.is_leader():
            raise NotSent(f"{request}: not sent, because this process does not lead")
        return await self._inner.request(request)
