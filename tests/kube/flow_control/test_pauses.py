"""Who waits after a 429 or 503 with `Retry-After`, and how long."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller.kube import errors
from controller.kube.limits import Lane, lane_of
from controller.kube.resources import PODS
from controller.kube.sender import MAX_GENERAL_PAUSE, REFUSED_READS, Pauses
from controller.kube.transport import Request, Response
from controller.runtime.metrics import ClientCollector
from tests.kube.fakes import FakeTransport, answer, client, status_body

CREATE = Lane("create", "pods", "sick")
OTHER = Lane("create", "pods", "healthy")
DENIED = 'admission webhook "busy.example.com" denied the request: later'


@pytest.mark.parametrize(
    ("method", "path", "query", "lane"),
    [
        ("POST", "/api/v1/namespaces/a/pods", {}, Lane("create", "pods", "a")),
        ("GET", "/api/v1/namespaces/a/pods/x", {}, Lane("get", "pods", "a")),
        ("GET", "/api/v1/namespaces/a/pods/x/log", {}, Lane("get", "pods/log", "a")),
        ("GET", "/api/v1/pods", {}, Lane("list", "pods")),
        ("GET", "/api/v1/pods", {"watch": "1"}, Lane("watch", "pods")),
        (
            "PATCH",
            "/apis/ray.io/v1/namespaces/a/rayclusters/x/status",
            {},
            Lane("patch", "rayclusters.ray.io/status", "a"),
        ),
        ("PUT", "/apis/batch/v1/namespaces/a/jobs/x", {}, Lane("update", "jobs.batch", "a")),
        ("DELETE", "/api/v1/namespaces/a", {}, Lane("delete", "namespaces")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, Lane("update", "namespaces/finalize")),
        ("GET", "/version", {}, Lane("get", "/version")),
        ("GET", "/apis/ray.io/v1", {}, Lane("get", "/apis/ray.io/v1")),
        ("GET", "/", {}, Lane("get", "/")),
    ],
)
def test_a_lane_is_verb_resource_and_namespace(method, path, query, lane):
    assert lane_of(Request(method, path, query)) == lane


def refusal(code: int = 429, seconds: str = "20", body: bytes | None = None) -> Response:
    text = status_body(code, "TooManyRequests", DENIED) if body is None else body
    return Response(code, {"retry-after": seconds}, text)


async def test_a_status_pauses_its_lane_and_quotes_the_server():
    pauses = Pauses(asyncio.get_running_loop())
    pauses.record(CREATE, refusal())
    assert (pauses.remaining(CREATE), pauses.remaining(OTHER)) == (20.0, 0.0)
    pause = pauses.current(CREATE)
    assert pause is not None
    assert pause.reason == DENIED


async def test_reads_of_several_resources_that_are_refused_at_once_pause_everything():
    pauses = Pauses(asyncio.get_running_loop())
    for number in range(REFUSED_READS - 1):
        pauses.record(Lane("list", f"resource-{number}"), refusal(seconds="1"))
        pauses.record(Lane("watch", f"resource-{number}"), refusal(seconds="1"))
    await asyncio.sleep(2)
    pauses.record(Lane("get", "pods", "a"), refusal(seconds="5"))
    assert pauses.remaining(OTHER) == 0, "the others are over"
    for number in range(REFUSED_READS - 1):
        pauses.record(Lane("list", f"resource-{number}"), refusal(seconds="5"))
    assert pauses.remaining(OTHER) == 5.0


async def test_a_refused_write_pauses_no_other_request_while_several_reads_are_refused():
    pauses = Pauses(asyncio.get_running_loop())
    for number in range(REFUSED_READS):
        pauses.record(Lane("list", f"resource-{number}"), refusal(seconds="60"))
    await asyncio.sleep(MAX_GENERAL_PAUSE + 1)
    assert pauses.remaining(OTHER) == 0
    pauses.record(Lane("create", "pods", "a"), refusal(seconds="60"))
    assert pauses.remaining(OTHER) == 0


async def test_pauses_that_are_over_are_forgotten():
    pauses = Pauses(asyncio.get_running_loop())
    for number in range(1000):
        pauses.pause_lane(Lane("create", "pods", f"n-{number}"), 1, "")
        await asyncio.sleep(0.1)
    assert len(pauses._lanes) <= 11


async def test_metrics_show_paused_lanes_without_their_namespaces():
    registry = CollectorRegistry()
    api = client(FakeTransport(lambda: answer(200)))
    registry.register(ClientCollector(lambda: api))

    def lanes(verb: str, resource: str) -> float | None:
        labels = {"verb": verb, "resource": resource}
        return registry.get_sample_value("manta_client_paused_lanes", labels)

    assert lanes("create", "pods") is None
    api.pauses.pause_lane(CREATE, 5, "")
    api.pauses.pause_lane(OTHER, 5, "")
    api.pauses.pause_all(1, "")
    assert (lanes("create", "pods"), lanes("all", "all")) == (2, 1)
    await asyncio.sleep(2)
    assert (lanes("create", "pods"), lanes("all", "all")) == (2, None)


async def test_what_is_not_sent_says_what_the_server_said_and_no_number_that_changes():
    body = status_body(429, "TooManyRequests", DENIED)
    api = client(FakeTransport(lambda: answer(429, body, retry_after="60")))
    with pytest.raises(errors.TooManyRequests):
        await api.create(PODS, "sick", {})
    messages: set[str] = set()
    for _ in range(3):
        await asyncio.sleep(1.7)
        with pytest.raises(errors.Paused, match="webhook") as caught:
            await api.create(PODS, "sick", {})
        messages.add(str(caught.value))
    assert len(messages) == 1
