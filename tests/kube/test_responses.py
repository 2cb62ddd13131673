"""Only the expected kind of body is accepted as a response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.kube import errors
from controller.kube.client import Client
from controller.kube.objects import Pod
from controller.kube.resources import PODS, SERVICES
from controller.kube.source import ResourceSource
from controller.kube.transport import MAX_BODY, MAX_LIST
from controller.ray.api import RAYCLUSTERS
from informers import Codec, SourceError
from tests.kube.fakes import HTML, POD, POD_LIST, FakeTransport, answer, client, status_body

STATUSES = range(200, 600)
BODIES: dict[str, Callable[[int], bytes]] = {
    "status": lambda code: status_body(code, "Whatever"),
    "object": lambda _: POD,
    "list": lambda _: POD_LIST,
    "html": lambda _: HTML,
    "empty": lambda _: b"",
    "half": lambda _: POD[: len(POD) // 2],
    "half list": lambda _: POD_LIST[:-1],
}
CLASSES = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    409: errors.Conflict,
    410: errors.Expired,
    413: errors.RequestEntityTooLarge,
    415: errors.UnsupportedMediaType,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    504: errors.ServerTimeout,
}


def expected_class(code: int, body: str) -> type[errors.StatusError]:
    if code == 404 and body != "status":
        return errors.PathNotFound
    return CLASSES.get(code, errors.ServerError if code >= 500 else errors.StatusError)


async def get(api: Client):
    return await api.get(PODS, "default", "a")


async def read_list(api: Client):
    return await api.list(PODS, "default")


async def create(api: Client):
    return await api.create(PODS, "default", {"metadata": {"name": "a"}})


async def patch(api: Client):
    return await api.merge_patch(PODS, "default", "a", {"metadata": {"labels": {"x": "y"}}})


async def delete(api: Client):
    return await api.delete(PODS, "default", "a")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("call", "good"), [(get, "object"), (read_list, "list")])
async def test_every_status_with_every_body_on_reads(body: str, call, good: str):
    for code in STATUSES:
        api = client(FakeTransport(lambda code=code: answer(code, BODIES[body](code))))
        if code < 300 and body == good:
            await call(api)
        elif code < 300:
            with pytest.raises(errors.UnexpectedResponse):
                await call(api)
        else:
            with pytest.raises(errors.StatusError) as caught:
                await call(api)
            assert type(caught.value) is expected_class(code, body)
            assert caught.value.status.code == code


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("call", [create, patch])
async def test_every_status_with_every_body_on_writes(body: str, call):
    for code in STATUSES:
        api = client(FakeTransport(lambda code=code: answer(code, BODIES[body](code))))
        if code < 300 and body == "object":
            await call(api)
        elif code < 300:
            with pytest.raises(errors.OutcomeUnknown) as unknown:
                await call(api)
            assert isinstance(unknown.value, errors.UnexpectedResponse)
        else:
            with pytest.raises(errors.StatusError) as caught:
                await call(api)
            assert type(caught.value) is expected_class(code, body)


@pytest.mark.parametrize("body", BODIES)
async def test_every_status_with_every_body_through_the_source_of_informers(body: str):
    for code in STATUSES:
        transport = FakeTransport(lambda code=code: answer(code, BODIES[body](code)))
        source = ResourceSource(client(transport), PODS)
        if code < 300 and body == "list":
            assert await source.list({}) == POD_LIST
        else:
            with pytest.raises(SourceError):
                Codec(Pod).page(await source.list({}))
        if code >= 300:
            with pytest.raises(SourceError):
                async with source.watch({"watch": "1"}):
                    pass
        assert len(transport.requests) == (1 if code < 300 else 2), "the reflector has the back-off"


async def test_a_conflict_over_a_name_is_told_from_a_lost_precondition():
    taken = FakeTransport(lambda: answer(409, status_body(409, "AlreadyExists")))
    with pytest.raises(errors.AlreadyExists):
        await create(client(taken))


async def test_a_gateways_404_page_is_not_taken_for_the_news_that_a_pod_is_gone():
    api = client(FakeTransport(lambda: answer(404, b"404 page not found")))
    with pytest.raises(errors.PathNotFound, match="404 page not found") as caught:
        await get(api)
    assert not isinstance(caught.value, errors.NotFound)


async def test_a_table_is_not_taken_for_a_list():
    table = b'{"kind":"Table","metadata":{"resourceVersion":"1"},"rows":[]}'
    with pytest.raises(errors.UnexpectedResponse):
        await read_list(client(FakeTransport(lambda: answer(200, table))))


@pytest.mark.parametrize("levels", [600, 5000])
async def test_an_object_that_is_too_deep_is_no_answer(levels: int):
    nested = b'{"a":' * levels + b"1" + b"}" * levels
    raw = b'{"apiVersion":"ray.io/v1","spec":%b,"kind":"RayCluster","metadata":{"name":"a"}}'
    deep = raw % nested
    with pytest.raises(errors.UnexpectedResponse, match="nested too deeply"):
        await client(FakeTransport(lambda: answer(200, deep))).get(RAYCLUSTERS, "default", "a")
    with pytest.raises(errors.UnexpectedResponse):
        await client(FakeTransport(lambda: answer(200, deep))).get(SERVICES, "default", "a")


async def test_metadata_are_listed_whatever_else_the_objects_hold():
    nested = b"[" * 5000 + b"]" * 5000
    body = b"""{"items":[{"metadata":{"name":"a","labels":7}}, {"metadata":{"name":"b"}, "x":%b},
        {"metadata":[]}], "kind":"PodList", "metadata":{"resourceVersion":"5","continue":"c"}}"""
    transport = FakeTransport(lambda: answer(200, body % nested))
    found = await client(transport).list_metadata(PODS, "default", limit=3)
    assert sorted(obj.metadata.name for obj in found.items) == ["a", "b"]
    assert (found.resource_version, found.continue_) == ("5", "c")


@pytest.mark.parametrize("body", [b'{"kind":"Table"}', b"[" * 5000, b'{"kind":"PodList"'])
async def test_what_is_no_list_is_an_error(body: bytes):
    with pytest.raises(errors.UnexpectedResponse):
        await client(FakeTransport(lambda: answer(200, body))).list_metadata(PODS, "default")


async def test_a_field_of_a_wrong_type_is_named():
    pod = b'{"kind":"Pod","metadata":{"name":5}}'
    with pytest.raises(errors.UnexpectedResponse, match=r"metadata\.name"):
        await get(client(FakeTransport(lambda: answer(200, pod))))


async def test_null_items_are_an_empty_list():
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"c"},"items":null}'
    found = await read_list(client(FakeTransport(lambda: answer(200, page))))
    assert (found.items, found.resource_version, found.continue_) == ([], "9", "c")


async def test_an_error_body_is_read_to_a_bound_only():
    delivered = 0

    async def endless():
        nonlocal delivered
        while True:
            delivered += 1
            yield b"x" * 100_000

    api = client(FakeTransport(lambda: (500, {}, endless())))
    with pytest.raises(errors.ServerError) as caught:
        await get(api)
    assert delivered <= 5
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("call", "most", "error"),
    [
        (get, MAX_BODY, errors.UnexpectedResponse),
        (read_list, MAX_LIST, errors.UnexpectedResponse),
        (create, MAX_BODY, errors.WriteUnconfirmed),
        (patch, MAX_BODY, errors.WriteUnconfirmed),
        (delete, MAX_BODY, errors.WriteUnconfirmed),
    ],
)
async def test_an_answer_without_end_is_read_to_a_bound_only(call, most: int, error):
    delivered, part = 0, b"x" * 4_000_000

    async def endless():
        nonlocal delivered
        while True:
            delivered += len(part)
            yield part

    api = client(FakeTransport(lambda: (200, {}, endless())))
    with pytest.raises(error, match=f"the answer has more than {most} bytes"):
        await call(api)
    assert most < delivered <= most + len(part)


async def test_the_words_of_the_server_and_its_causes_are_kept():
    body = status_body(422, "Invalid", "spec: too many", causes=[{"reason": "F", "message": "m"}])
    with pytest.raises(errors.Invalid, match="spec: too many") as caught:
        await create(client(FakeTransport(lambda: answer(422, body))))
    assert caught.value.status.causes == (("F", "m"),)


WEBHOOK_DOWN = (
    'Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: '
    'Post "https://policies.example.svc:443/?timeout=10s": context deadline exceeded'
)


@pytest.mark.parametrize(
    ("error", "possible"),
    [
        (errors.OutcomeUnknown("reset"), True),
        (errors.WriteUnconfirmed("html"), True),
        (asyncio.CancelledError(), True),
        (errors.NotSent("refused"), False),
        (errors.Paused("later", retry_after=5), False),
        (errors.error_for(errors.Status(409, "Conflict")), False),
        (errors.error_for(errors.Status(429, "TooManyRequests")), False),
        (errors.error_for(errors.Status(500, "InternalError", "etcdserver: no space")), True),
        (errors.error_for(errors.Status(500, "InternalError", WEBHOOK_DOWN)), False),
        (errors.error_for(errors.Status(502)), True),
        (errors.error_for(errors.Status(503), retry_after=1), False),
        (errors.error_for(errors.Status(504, "Timeout"), retry_after=1), True),
        (errors.error_for(errors.Status(500, "ServerTimeout"), retry_after=2), True),
    ],
)
def test_which_failed_writes_may_have_happened(error: BaseException, possible: bool):
    assert errors.may_have_happened(error) is possible
