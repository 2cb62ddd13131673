"""All caches of a process: what they watch, whom they tell, and when they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.apimachinery.metadata import owner_reference
from controller.kube.errors import NotSent
from controller.kube.objects import KubeObject
from controller.kube.resources import CONFIG_MAPS, CRDS, NODES, SECRETS, Resource
from controller.runtime.cache import CacheBarrier
from controller.runtime.kind import Owned, References, ServerUnusable, SyncTimeout
from controller.runtime.watches import ASK
from controller.testing.faults import ErrorResponse, Rule, watch_lag
from tests.faults.restored import Backup
from tests.runtime.caches.kit import CacheWorld, Served, cache_world, kind
from tests.runtime.widgets import GADGETS, WIDGETS, definition

READS = frozenset({"list", "watch"})
WORDS = (
    "Gave up after 30 s because caches are not complete. Cannot list configmaps in all "
    'namespaces (widget): 403 Forbidden: not that one. Grant the verbs "list" and "watch" on '
    'configmaps of API group "" to the operator\'s service account by a ClusterRole.'
)


@pytest.fixture
async def world() -> AsyncIterator[CacheWorld]:
    async with cache_world() as world:
        yield world


def refused(resource: str) -> Rule:
    return Rule(ErrorResponse(403, "Forbidden", "not that one"), resource, READS)


def scopes(world: CacheWorld) -> list[tuple[str, str]]:
    return [(each.scope.name, each.scope.label_selector) for each in world.caches.caches]


async def test_an_object_in_no_namespace_enqueues_nobody_in_a_namespace_that_is_not_watched(
    world: CacheWorld,
):
    def users(node: KubeObject) -> list[str]:
        return list((node.metadata.annotations or {}).values())

    watch, served = kind(Owned(NODES, also_enqueues=users)), Served()
    world.build([watch], namespaces=("default", "two")).serve(served, watch)  # type: ignore[arg-type]
    async with world.running():
        keys = ("default/f", "two/f", "other/f", "clusterwide")
        annotations = {f"user-{number}": key for number, key in enumerate(keys)}
        metadata = {"name": "n", "annotations": annotations}
        await world.create(NODES, {"metadata": metadata}, "")
        await asyncio.sleep(1)
        assert served.keys == {"default/f", "two/f", "clusterwide"}


async def test_a_child_of_an_earlier_owner_enqueues_nobody(world: CacheWorld):
    earlier = await world.widget("f")
    await world.user.delete(WIDGETS, "default", "f")
    await world.widget("f")
    served, watch = Served(), kind()
    world.build([watch]).serve(served, watch)  # type: ignore[arg-type]
    async with world.running():
        served.added.clear()
        await world.child("a", earlier)
        await asyncio.sleep(1)
        assert served.keys == set()
        await world.user.delete(WIDGETS, "default", "f")
        await asyncio.sleep(1)
        served.added.clear()
        await world.child("b", earlier)
        await asyncio.sleep(1)
        assert served.keys == {"default/f"}, "no owner is cached"


def referring(primary: Resource[Any], *, optional: bool = False) -> Any:
    def used(obj: KubeObject) -> tuple[str, ...]:
        return tuple(f"default/{name}" for name in obj.metadata.labels.values())

    references = References("uses", used, lambda obj: (obj.metadata.key,))
    return kind(Owned(SECRETS, references=references), primary=primary, optional=optional)


async def test_an_object_enqueues_the_primaries_that_refer_to_it(world: CacheWorld):
    for name, uses in [("f", "s"), ("g", "s"), ("h", "t")]:
        await world.create(WIDGETS, {"metadata": {"name": name, "labels": {"uses": uses}}})
    served, watch = Served(), referring(WIDGETS)
    world.build([watch]).serve(served, watch)  # type: ignore[arg-type]
    async with world.running():
        served.added.clear()
        await world.create(SECRETS, {"metadata": {"name": "s"}})
        await asyncio.sleep(1)
        assert served.keys == {"default/f", "default/g"}


async def test_without_primaries_nobody_refers_to_an_object(world: CacheWorld):
    served, watch = Served(), referring(GADGETS, optional=True)
    world.build([watch]).serve(served, watch)  # type: ignore[arg-type]
    with capture_logs() as logs:
        async with world.running():
            await world.create(SECRETS, {"metadata": {"name": "s"}})
            await asyncio.sleep(1)
            (failures,) = world.cache(SECRETS).informer.statistics().handler_failures.values()
    assert (served.keys, failures) == (set(), 0)
    assert scopes(world) == [("secrets", "")]
    remedy = (
        "manta crds | kubectl apply --server-side --force-conflicts -f -; "
        "those of Workspaces are printed by manta crds --kind workspace"
    )
    assert logs == [
        {
            "event": "kind.not_served",
            "kind": "Gadget",
            "remedy": f"install the definitions ({remedy})",
            "log_level": "warning",
        }
    ]


async def test_an_optional_resource_that_is_served_is_watched_for_all_who_want_it(
    world: CacheWorld,
):
    await world.user.create(CRDS, "", definition(GADGETS))
    gadget = kind(primary=GADGETS, optional=True)
    owner = kind(Owned(GADGETS, optional=True, also_enqueues=lambda obj: (obj.metadata.key,)))
    world.build([gadget, owner])
    controllers = Served("gadget-controller"), Served("widget-controller")
    for served, each in zip(controllers, (gadget, owner), strict=True):
        world.caches.serve(served, each)
    assert "gadgets.test.dev" not in dict(scopes(world))
    async with world.running():
        assert world.said == ["synced", "ready"]
        assert "gadgets.test.dev" in dict(scopes(world))
        await world.create(GADGETS, {"metadata": {"name": "x"}})
        await asyncio.sleep(1)
        assert [served.keys for served in controllers] == [{"default/x"}] * 2
        handlers = world.cache(GADGETS).informer.statistics().handler_failures
        assert list(handlers) == ["gadget-controller", "widget-controller"]
        children = world.cache(CONFIG_MAPS).informer.statistics().handler_failures
        assert list(children) == ["gadget-controller"]


@pytest.mark.parametrize("namespaces", [(), ("default",)])
async def test_a_resource_that_is_installed_later_is_read_once_it_is_complete(
    world: CacheWorld, namespaces: tuple[str, ...]
):
    available: list[Any] = []
    owner = kind(Owned(GADGETS, optional=True))
    world.build([owner], on_available=available.append, namespaces=namespaces)
    served = Served()
    world.caches.serve(served, owner)
    widget = await world.widget()
    async with world.running():
        reads = world.expectations.reader
        await world.user.create(CRDS, "", definition(GADGETS))
        await world.create(GADGETS, owned_by(widget, "x"))
        world.transport.rules = [refused("gadgets.test.dev")]
        await asyncio.sleep(ASK + 1)
        assert not reads.serves(GADGETS)
        served.added.clear()
        world.transport.rules = []
        await asyncio.sleep(ASK + 1)
        assert available == [GADGETS]
        assert reads.get(GADGETS, "default/x") is not None
        assert served.keys == {"default/f"}
        await world.create(GADGETS, owned_by(widget, "y"))
        await asyncio.sleep(1)
        assert served.keys == {"default/f"}


async def test_a_resource_that_may_not_be_listed_is_as_good_as_none(world: CacheWorld):
    await world.user.create(CRDS, "", definition(GADGETS))
    world.transport.rules = [refused("gadgets.test.dev")]
    world.build([kind(Owned(GADGETS, optional=True))])
    async with world.running():
        assert world.said == ["synced", "ready"]
        assert world.caches.unready() is None
        assert not world.expectations.reader.serves(GADGETS)


async def test_what_is_refused_comes_and_goes_is_logged(world: CacheWorld):
    await world.user.create(CRDS, "", definition(GADGETS))
    world.transport.rules = [refused("gadgets.test.dev")]
    available: list[Any] = []
    owner = kind(Owned(GADGETS, optional=True))
    world.build([owner], on_available=available.append).serve(Served(), owner)  # type: ignore[arg-type]
    with capture_logs() as logs:
        async with world.running():
            world.transport.rules = []
            await asyncio.sleep(ASK + 1)
            assert {name for name, _ in scopes(world)} == {"widgets.test.dev", "gadgets.test.dev"}
            await world.user.delete(CRDS, "", f"{GADGETS.plural}.{GADGETS.group}")
            await asyncio.sleep(ASK + 5)
            assert [name for name, _ in scopes(world)] == ["widgets.test.dev"]
    assert available == [GADGETS] * 2
    about = {"resource": "gadgets.test.dev"}
    refusal = {"error": "not that one", "log_level": "warning"}
    assert logs == [
        {"event": "resource.forbidden", **refusal, **about},
        {"event": "resource.available", "log_level": "info", **about},
        {"event": "resource.removed", "log_level": "warning", **about},
    ]


async def test_a_cache_that_comes_later_is_not_read_before_it_is_confirmed(
    world: CacheWorld,
):
    owner = kind(Owned(GADGETS, optional=True))
    world.build([owner], sync_timeout=5.0)
    async with world.running():
        await world.user.create(CRDS, "", definition(GADGETS))
        confirmed = asyncio.Event()
        wait = CacheBarrier.wait

        async def late(barrier: CacheBarrier, since: float) -> None:
            await confirmed.wait()
            await wait(barrier, since)

        with pytest.MonkeyPatch.context() as patch, capture_logs() as logs:
            patch.setattr(CacheBarrier, "wait", late)
            await asyncio.sleep(ASK + 12)
            assert not world.expectations.reader.serves(GADGETS)
            (line, *_) = logs
            assert (line["event"], line["log_level"]) == ("cache.not_confirmed", "warning")
            assert line["error"].startswith("Gave up after 5 s: the caches did not reach")
            confirmed.set()
            await asyncio.sleep(1)
        assert world.expectations.reader.serves(GADGETS)


def owned_by(widget: KubeObject, name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "ownerReferences": [owner_reference(WIDGETS, widget.metadata)]}
    }


async def test_a_server_that_does_not_say_what_it_serves_is_asked_every_two_seconds(
    world: CacheWorld,
):
    await world.user.create(CRDS, "", definition(GADGETS))
    times: list[float] = []
    request = world.client.request_json

    async def reluctant(method: str, path: str) -> Any:
        times.append(world.loop.time())
        if len(times) <= 2:
            raise NotSent("unavailable")
        return await request(method, path)

    world.client.request_json = reluctant  # type: ignore[method-assign, assignment]
    world.build([kind(Owned(GADGETS, optional=True))])
    began = world.loop.time()
    with capture_logs() as logs:
        async with world.running():
            await asyncio.sleep(4)
            assert "gadgets.test.dev" in dict(scopes(world))
    assert [round(time - began) for time in times] == [0, 2, 4]
    assert [line for line in logs if "discovery" in line["event"]] == [
        {
            "event": "discovery.failed",
            "resource": "gadgets.test.dev",
            "error": "unavailable",
            "log_level": "warning",
        }
    ] * 2


@pytest.mark.parametrize("namespaces", [(), ("one", "two")])
async def test_the_beginning_of_a_watch_is_told_for_primaries(
    world: CacheWorld, namespaces: tuple[str, ...]
):
    world.build([kind()], namespaces=namespaces)
    async with world.running():
        assert world.watched == [(WIDGETS, each) for each in namespaces or [""]]


async def test_when_the_definition_of_a_primary_changes_its_objects_are_listed_again(
    world: CacheWorld, caplog: pytest.LogCaptureFixture
):
    world.build([kind()])
    async with world.running():
        for resource in (WIDGETS, CONFIG_MAPS):
            await world.caches.reread(resource)
        (told,) = caplog.messages
        sign = "the definition of widgets.test.dev has changed"
        assert told == f"widgets.test.dev in all namespaces: {sign}; listing at quorum"


async def test_an_object_that_cannot_be_decoded_is_reported_once_for_each_reason(
    world: CacheWorld,
):
    await world.odd_widget()
    world.build([kind()])
    async with world.running():
        await world.widget("good")
        await asyncio.sleep(1)
        ((resource, odd),) = world.odd
        assert (resource, odd.key) == (WIDGETS, "default/odd")
        assert world.expectations.reader.unreadable(WIDGETS, "default").keys() == {"odd"}


# -- expectations ---------------------------------------------------------------------------------


async def test_a_list_of_another_history_ends_the_process_before_it_is_published(
    world: CacheWorld,
):
    await world.child("a")
    backup = Backup(world.server)
    world.build([kind()])
    task = asyncio.create_task(world.run())
    await asyncio.sleep(1)
    await world.child("b")
    await asyncio.sleep(1)
    backup.restore()
    world.expectations.on_rewound(CONFIG_MAPS, "a sign")
    await asyncio.sleep(1)
    with pytest.raises(ServerUnusable, match="database was probably restored") as raised:
        await task
    assert str(raised.value).startswith("configmaps in all namespaces (widget) went back from ")
    assert world.expectations.reader.get(CONFIG_MAPS, "default/b") is not None


async def test_a_sign_leads_to_a_list_of_its_resource_at_quorum(world: CacheWorld):
    world.build([kind()])
    async with world.running():
        world.expectations.on_rewound(CONFIG_MAPS, "a sign")
        await asyncio.sleep(5)
        assert world.cache(CONFIG_MAPS).informer.statistics().relists == {"rewound": 1}
        assert world.cache(WIDGETS).informer.statistics().relists == {}


# -- start and confirmation -----------------------------------------------------------------------


async def test_a_confirmation_that_is_refused_ends_with_cause_and_remedy(world: CacheWorld):
    world.build([kind()], sync_timeout=30.0)
    async with world.running():
        world.transport.rules = [refused("configmaps")]
        began = world.loop.time()
        with capture_logs() as logs, pytest.raises(SyncTimeout) as raised:
            await world.caches.confirm(world.loop.time())
    assert world.loop.time() - began == pytest.approx(30)
    assert str(raised.value) == WORDS
    failed = [line for line in logs if line["event"] == "quorum_read.failed"]
    assert failed == [
        {
            "event": "quorum_read.failed",
            "cache": "configmaps (widget)",
            "error": "403 Forbidden: not that one",
            "log_level": "warning",
        }
    ] * len(failed)
    assert 14 <= len(failed) <= 15, "every two seconds"


async def test_caches_that_stay_behind_end_a_confirmation(world: CacheWorld):
    world.build([kind()], sync_timeout=30.0)
    async with world.running():
        world.transport.rules = [refused("configmaps")]
        with capture_logs():
            soon = asyncio.create_task(world.caches.confirm(world.loop.time()))
            await asyncio.sleep(5)
            world.transport.rules = [watch_lag("configmaps", 1000.0)]
            await world.child("a")
            with pytest.raises(SyncTimeout) as raised:
                await soon
    assert str(raised.value) == (
        "Gave up after 30 s: the caches did not reach the revision that the API server had at the "
        "start, so acting on them would not be safe."
    )
