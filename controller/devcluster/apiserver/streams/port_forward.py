"""`kubectl port-forward`: pairs of SPDY streams become connections to a pod.

Each connection has a stream for data and one for an error, which says why there is no connection.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.streams.spdy import SpdyConnection

if TYPE_CHECKING:
    from controller.devcluster.apiserver.streams.connections import ByteStream
    from controller.devcluster.apiserver.streams.spdy import SpdyStream

_CHUNK = 32 * 1024
_CONNECT = 10.0  # seconds


class PortForward:
    """Serves one client.

    Args:
        address: address of the pod.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._unpaired: dict[str, SpdyStream] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def __call__(self, pipe: ByteStream) -> None:
        """Serve the client until it has gone; then cut all its connections.

        Raises:
            SpdyError: the client does not speak SPDY/3.1.
        """
        try:
            await SpdyConnection(pipe, self._accept).serve()
        finally:
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, stream: SpdyStream) -> None:
        """Connect when both streams of a connection are there."""
        pair = stream.headers.get("requestid", "")
        other = self._unpaired.pop(pair, None)
        if other is None:
            self._unpaired[pair] = stream
            return
        is_error = stream.headers.get("streamtype") == "error"
        error, data = (stream, other) if is_error else (other, stream)
        task = asyncio.create_task(self._connect(error, data))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, error: SpdyStream, data: SpdyStream) -> None:
        port = data.headers.get("port", "")
        try:
            async with asyncio.timeout(_CONNECT):
                reader, writer = await asyncio.open_connection(self._address, int(port))
        except (OSError, ValueError, OverflowError) as failure:
            why = str(failure) or "no answer in time"
            await error.send(f"cannot reach port {port} of the pod: {why}".encode())
        else:
            await _both_ways(data, reader, writer)
        await data.end()
        await error.end()


async def _both_ways(
    data: SpdyStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy until the pod has ended its half, or sends to a client that has reset the stream.

    What the client still sends is dropped then.
    """
    sending = asyncio.create_task(_send(data, writer))
    try:
        with suppress(ConnectionError):
            while (chunk := await reader.read(_CHUNK)) and not data.has_ended:
                await data.send(chunk)
    finally:
        sending.cancel()
        await asyncio.wait({sending})
        writer.close()


async def _send(data: SpdyStream, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await data.receive():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
