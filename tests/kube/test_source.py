"""Informers on a client: no response of a server or proxy corrupts a store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from controller.kube import errors
from controller.kube.client import Client
from controller.kube.limits import Lane
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.kube.source import ResourceSource
from controller.kube.transport import RawResponse, Request
from informers import (
    Codec,
    ConnectionRefused,
    Disconnected,
    Expired,
    InternalError,
    ResourceVersionTooLarge,
    SharedInformer,
    Throttled,
    Unsupported,
)
from tests.kube.fakes import HTML, JSON, POD, FakeTransport, answer, chunks, client, status_body

PAGE = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[%b]}' % POD


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (lambda: answer(410, status_body(410, "Expired")), Expired),
        (lambda: answer(429, b""), Throttled),
        (lambda: answer(400, b""), Unsupported),
        (lambda: answer(422, status_body(422, "Invalid")), Unsupported),
        (lambda: answer(500, status_body(500, "InternalError")), InternalError),
        (
            lambda: answer(
                504, status_body(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
            ),
            ResourceVersionTooLarge,
        ),
        (errors.NotSent("refused"), ConnectionRefused),
        (errors.OutcomeUnknown("reset"), Disconnected),
    ],
)
async def test_each_failure_has_its_error(step, error):
    source = ResourceSource(client(FakeTransport(step)), PODS)
    with pytest.raises(error):
        await source.list({})


async def test_a_pause_of_the_client_is_told_with_its_length():
    api = client(FakeTransport(lambda: answer(200, PAGE)), timeout=10)
    api.pauses.pause_lane(Lane("list", "pods"), 60, "busy")
    source = ResourceSource(api, PODS)
    with pytest.raises(Throttled) as caught:
        await source.list({})
    assert caught.value.retry_after == 60.0


class OneGoodList:
    """The first list is good; every later request gets the same response."""

    def __init__(self, bad: Callable[[], RawResponse]) -> None:
        self.bad = bad
        self.requests: list[Request] = []

    async def request(self, request: Request) -> RawResponse:
        self.requests.append(request)
        if request.query.get("sendInitialEvents"):
            return answer(400, status_body(400, "BadRequest"))
        listed = any(not earlier.watching for earlier in self.requests[:-1])
        return self.bad() if listed or request.watching else answer(200, PAGE)


BODIES = {
    "status": lambda code: status_body(code, "Whatever"),
    "object": lambda _: POD,
    "list": lambda _: PAGE,
    "html": lambda _: HTML,
    "empty": lambda _: b"",
    "half event": lambda _: b'{"type":"ADDED","object":{"metadata":{"na',
}


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("body", BODIES)
async def test_no_answer_to_a_watch_or_relist_spoils_the_store_or_makes_a_hot_loop(
    body: str, broken: bool
):
    for code in [200, 201, 204, 299, 301, 400, 401, 403, 404, 409, 410, 418, 429, 500, 503, 504]:
        reset = [errors.OutcomeUnknown("reset")] if broken else []
        content = BODIES[body](code)
        transport = OneGoodList(
            lambda code=code, content=content, reset=reset: (code, JSON, chunks(content, *reset))
        )
        informer = SharedInformer(
            "pods",
            ResourceSource(
                Client(transport, user_agent="t", clock=asyncio.get_running_loop()), PODS
            ),
            Codec(Pod),
            clock=asyncio.get_running_loop(),
            rng=random.Random(1),
        )
        running = asyncio.create_task(informer.run())
        await informer.wait_for_sync()
        await asyncio.sleep(60)
        assert not running.done()
        assert [pod.metadata.uid for pod in informer.lister.list()] == ["u1"]
        assert 2 <= len(transport.requests) <= 40
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
