"""A transport that replays scripted responses, and bodies for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from controller.kube.client import Client
from controller.kube.transport import RawResponse, Request

JSON = {"content-type": "application/json"}
HTML = b"<html><body>Bad gateway</body></html>"
POD = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u1","resourceVersion":"7"}}'
POD_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}'


def status_body(code: int, reason: str = "", message: str = "no", **details: Any) -> bytes:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Success" if code < 300 else "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return json.dumps(status | ({"details": details} if details else {})).encode()


def answer(status: int, body: bytes = b"", **headers: str) -> RawResponse:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, JSON | fields, chunks(body)


async def chunks(*parts: bytes | BaseException) -> AsyncGenerator[bytes, None]:
    for part in parts:
        if isinstance(part, BaseException):
            raise part
        if part:
            yield part


class FakeTransport:
    """Answers each request with the next step of its script and repeats the last step.

    A step is an exception to raise, or a function that makes an answer.
    """

    def __init__(self, *script: BaseException | Callable[[], RawResponse]) -> None:
        self.script = list(script)
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.hold: asyncio.Event | None = None
        self.in_flight = 0
        self.most_in_flight = 0

    async def request(self, request: Request) -> RawResponse:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.hold is not None:
                await self.hold.wait()
        finally:
            self.in_flight -= 1
        if isinstance(step, BaseException):
            raise step
        return step()

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.body or b"null") for request in self.requests]


def client(transport: FakeTransport, **options: Any) -> Client:
    return Client(transport, user_agent="test/1", clock=asyncio.get_running_loop(), **options)
