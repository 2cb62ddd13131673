"""The request that each verb sends and the value that it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.kube import errors
from controller.kube.client import Client
from controller.kube.objects import KubeObject, Pod
from controller.kube.resources import PODS, SERVICES
from controller.runtime.metrics import RestClientMetrics
from tests.kube.fakes import HTML, POD, FakeTransport, answer, client, status_body

TARGET = (PODS, "default", "a")
PATH = "/api/v1/namespaces/default/pods/a"


def answering(body: bytes = POD, status: int = 200) -> FakeTransport:
    return FakeTransport(lambda: answer(status, body))


async def test_get_gives_a_typed_view():
    transport = answering()
    pod = await client(transport).get(*TARGET)
    assert isinstance(pod, Pod)
    assert (pod.metadata.name, pod.metadata.uid) == ("a", "u1")
    [request] = transport.requests
    assert (request.method, request.path, request.body) == ("GET", PATH, None)
    assert request.headers == {"user-agent": "test/1", "accept": "application/json"}


async def test_a_caller_learns_once_that_the_server_is_silent():
    transport, told = answering(), list[tuple[float, str]]()
    transport.hold, loop = asyncio.Event(), asyncio.get_running_loop()
    began = loop.time()
    api = client(transport).for_flow("uid", lambda e: told.append((loop.time() - began, str(e))))
    with pytest.raises(errors.OutcomeUnknown):
        await api.merge_patch(*TARGET, {})
    assert told == [(12.0, f"PATCH {PATH}: no complete answer within 12.0 s")]


async def test_list_sends_only_what_was_asked_for():
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"next"},"items":[%b]}'
    transport = answering(page % POD)
    api = client(transport)
    found = await api.list(PODS, "default", label_selector="a=b", limit=5, continue_="t")
    assert [pod.metadata.name for pod in found.items] == ["a"]
    assert (found.resource_version, found.continue_) == ("9", "next")
    await api.list(PODS)
    narrow, wide = transport.requests
    assert narrow.query == {"labelSelector": "a=b", "limit": "5", "continue": "t"}
    assert (wide.path, wide.query) == ("/api/v1/pods", {})


async def test_patches_carry_their_content_type_and_subresource():
    transport = answering()
    api = client(transport)
    await api.merge_patch(*TARGET, {"metadata": {"labels": {"x": None}}})
    await api.json_patch(*TARGET, ({"op": "test", "path": "/x", "value": 1},), subresource="status")
    merge, json = transport.requests
    assert merge.headers["content-type"] == "application/merge-patch+json"
    assert json.headers["content-type"] == "application/json-patch+json"
    assert json.path == f"{PATH}/status"
    assert transport.bodies == [
        {"metadata": {"labels": {"x": None}}},
        [{"op": "test", "path": "/x", "value": 1}],
    ]


async def test_delete_carries_the_uid_and_gives_what_is_left():
    transport = answering()
    left = await client(transport).delete(
        *TARGET, uid="u1", grace_seconds=0, propagation="Background"
    )
    assert left is not None
    assert transport.bodies == [
        {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": "u1"},
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
        }
    ]


async def test_a_delete_answered_by_a_web_page_is_unconfirmed():
    with pytest.raises(errors.WriteUnconfirmed):
        await client(answering(HTML)).delete(*TARGET)


@pytest.mark.parametrize("verb", ["get", "get_raw", "delete"])
async def test_an_empty_name_never_becomes_the_path_of_the_collection(verb: str):
    transport = answering()
    with pytest.raises(ValueError, match="must not be empty"):
        await getattr(client(transport), verb)(PODS, "default", "")
    assert transport.requests == []


# --- a partial view has no way back


@pytest.mark.parametrize("verb", ["replace", "merge_patch"])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"a": v}, lambda v: {"a": [{"b": v}]}])
async def test_a_partial_view_is_refused_at_run_time_however_deep(verb: str, wrap):
    transport = answering()
    api = client(transport)
    pod = await api.get(*TARGET)
    with pytest.raises(TypeError, match="Pod is no plain data"):
        await getattr(api, verb)(*TARGET, wrap(pod))
    with pytest.raises(TypeError, match="ObjectMeta is no plain data"):
        await api.create(PODS, "default", wrap(pod.metadata))
    assert len(transport.requests) == 1


def test_a_partial_view_is_refused_by_type():
    """`body` is a Mapping, which no Struct is, so pyright rejects the call."""
    assert not issubclass(KubeObject, Mapping)
    assert Client.replace.__annotations__["body"] == "Mapping[str, Any]"


async def test_raw_json_may_be_passed_on():
    transport = answering()
    await client(transport).create(PODS, "default", {"spec": msgspec.Raw(b'{"deep": 1}')})
    assert transport.bodies == [{"spec": {"deep": 1}}]


# --- services behind the API server


async def test_a_proxied_answer_comes_back_whatever_its_status():
    transport = FakeTransport(lambda: answer(503, b"busy", retry_after="60"))
    api = client(transport)
    got = await api.proxy(SERVICES, "ns", "svc:8265", "GET", "/api/jobs/", query={"a": "b"})
    assert (got.status, got.body) == (503, b"busy")
    assert transport.requests[0].path == ("/api/v1/namespaces/ns/services/svc:8265/proxy/api/jobs/")
    assert not api.pauses.paused(), "a dashboard's Retry-After concerns nobody else"


async def test_what_the_api_server_says_about_a_proxied_request_is_an_error():
    body = status_body(503, "ServiceUnavailable", "no endpoints available")
    transport = FakeTransport(lambda: answer(503, body))
    with pytest.raises(errors.ServerError, match="no endpoints"):
        await client(transport).proxy(SERVICES, "ns", "svc:dash", "GET", "/")
    assert len(transport.requests) == 1


# --- logs


async def test_the_tail_of_a_log_is_cut_at_its_beginning():
    transport = FakeTransport(
        lambda: answer(200, b"first\nsecond \xff line\n", content_type="text/plain")
    )
    api = client(transport)
    text = await api.read_log_tail("ns", "p", container="c", lines=2, limit_bytes=7)
    assert text == "\ufffd line\n"
    [request] = transport.requests
    assert request.path == "/api/v1/namespaces/ns/pods/p/log"
    query = {"container": "c", "tailLines": "2", "limitBytes": "112"}
    assert request.query == query
    await api.read_log_tail("ns", "p", container="c", lines=2, limit_bytes=7, previous=True)
    assert transport.requests[-1].query == query | {"previous": "true"}


# --- the escape hatch


async def test_request_json_gives_data_or_text():
    api = client(answering(b'{"major":"1"}'))
    assert await api.request_json("GET", "/version") == {"major": "1"}
    text = FakeTransport(lambda: answer(200, b"ok", content_type="text/plain; charset=utf-8"))
    assert await client(text).request_json("GET", "/healthz") == "ok"
    with pytest.raises(errors.UnexpectedResponse):
        await client(answering(HTML)).request_json("GET", "/version")


# --- metrics


async def test_requests_are_counted_under_upstreams_names():
    registry = CollectorRegistry()
    metrics = RestClientMetrics(registry).for_host("10.0.0.1:6443")
    transport = FakeTransport(
        lambda: answer(429, status_body(429), retry_after="1"),
        lambda: answer(200, POD),
        errors.OutcomeUnknown("reset"),
        errors.NotSent("refused"),
        lambda: answer(200, b"{}"),
    )
    api = client(transport, metrics=metrics)
    await api.get(*TARGET)
    with pytest.raises(errors.OutcomeUnknown):
        await api.create(PODS, "default", {})
    with pytest.raises(errors.NotSent):
        await api.delete(*TARGET)
    async with api.stream("/api/v1/pods", {"watch": "1"}):
        pass

    def count(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels | {"host": "10.0.0.1:6443"})

    requests = "rest_client_requests_total"
    assert count(requests, code="429", method="GET") == 1
    assert count(requests, code="200", method="GET") == 2
    assert count(requests, code="<error>", method="POST") == 1
    assert count(requests, code="<error>", method="DELETE") == 1
    assert count("rest_client_request_retries_total", code="429", verb="GET") == 1
    assert count("rest_client_request_duration_seconds_count", verb="GET") == 2
    assert count("rest_client_rate_limiter_duration_seconds_sum", verb="GET") == 0
    assert count("rest_client_response_size_bytes_sum", verb="GET") == len(POD) + len(
        status_body(429)
    )


async def test_what_a_service_behind_the_api_server_answers_counts_as_no_request_to_it():
    registry = CollectorRegistry()
    metrics = RestClientMetrics(registry).for_host("10.0.0.1:6443")
    transport = FakeTransport(lambda: answer(503, b"busy"), errors.OutcomeUnknown("reset"))
    api = client(transport, metrics=metrics)
    await api.proxy(SERVICES, "ns", "svc:8265", "GET", "/")
    with pytest.raises(errors.OutcomeUnknown):
        await api.proxy(SERVICES, "ns", "svc:8265", "GET", "/")
    assert [each for metric in registry.collect() for each in metric.samples] == []
