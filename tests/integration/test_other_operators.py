"""A second operator is noticed at the start and from time to time, by what it leaves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.apimachinery.conditions import rfc3339, rfc3339_micro
from controller.command.other_operators import OtherOperators
from controller.kube.errors import Forbidden, NotFound, Status
from controller.kube.objects import KubeObject
from controller.kube.resources import PODS, Resource
from controller.testing.faults import FaultyTransport
from tests.integration.harness import RunningOperator, World

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", KubeObject)
KUBERAY = {"app.kubernetes.io/component": "kuberay-operator"}
MANTA = {"app.kubernetes.io/name": "manta-operator"}
KAITO = {"app.kubernetes.io/name": "workspace"}


class Lookout:
    """One that looks for other operators, and what it has said."""

    def __init__(
        self, world: World, *, own_pod: str = "", client: Any = None, **options: Any
    ) -> None:
        self.world = world
        self.registry = CollectorRegistry()
        self.others = OtherOperators(
            client or world.user,
            [world.namespace],
            own_pod=own_pod,
            wall=world.wall,
            registry=self.registry,
            **options,
        )

    async def look(self) -> list[tuple[str, str]]:
        """The events and signs that are logged by one look."""
        with capture_logs() as logs:
            await self.others.look()
        warned = [each for each in logs if each["log_level"] != "debug"]
        return [(each["event"], each.get("signs", "")) for each in warned]

    def count(self, kind: str) -> float | None:
        return self.registry.get_sample_value("manta_other_operators", {"kind": kind})


async def start(
    world: World, name: str, labels: dict[str, str], *arguments: str, image: str = "operator"
) -> None:
    container = {"name": "operator", "image": image, "args": list(arguments)}
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}
    await world.user.create(PODS, world.namespace, body)
    await world.settle(5.0)


async def test_alone_it_says_nothing(world: World):
    lookout = Lookout(world)
    assert await lookout.look() == []
    assert (lookout.count("kuberay"), lookout.count("manta")) == (0, 0)


@pytest.mark.parametrize(("labels", "kind"), [(KUBERAY, "kuberay"), (MANTA, "manta")])
async def test_a_pod_of_another_operator_is_named_until_it_is_gone(
    world: World, labels: dict[str, str], kind: str
):
    lookout = Lookout(world, own_pod="this-one")
    await start(world, "this-one", MANTA)
    await start(world, "other", labels)
    told = [("operator.not_alone", f"pod {world.namespace}/other")]
    assert await lookout.look() == told
    assert await lookout.look() == told, "as long as it is there"
    assert lookout.count(kind) == 1
    await world.user.delete(PODS, world.namespace, "other")
    await world.settle(60.0)
    assert await lookout.look() == [("operator.alone", "")]
    assert lookout.count(kind) == 0
    assert await lookout.look() == []


@pytest.mark.parametrize(("labels", "kind"), [(KUBERAY, "kuberay"), (MANTA, "manta")])
async def test_a_pod_that_stands_by_for_the_same_lease_is_none_but_one_that_heeds_no_lease_is(
    world: World, labels: dict[str, str], kind: str
):
    lookout = Lookout(world, lease_in=world.namespace)
    await start(world, "standby", labels, "--enable-leader-election=true")
    assert await lookout.look() == []
    await start(world, "heedless", labels, "--enable-leader-election=false")
    assert await lookout.look() == [("operator.not_alone", f"pod {world.namespace}/heedless")]
    assert lookout.count(kind) == 1


async def test_kaitos_pod_is_named_if_workspaces_are_served_and_by_its_image(world: World):
    await start(world, "somebodys", KAITO, image="example/workspace:1")
    lookout = Lookout(world, workspaces=True, lease_in=world.namespace)
    assert await lookout.look() == []
    await start(world, "kaitos", KAITO, image="mcr.microsoft.com/aks/kaito/workspace:0.7.0")
    assert await lookout.look() == [("operator.not_alone", f"pod {world.namespace}/kaitos")]
    assert lookout.count("kaito") == 1
    without = Lookout(world)
    assert await without.look() == []
    assert without.count("kaito") is None


async def test_a_lease_counts_as_long_as_somebody_renews_it(world: World):
    lookout = Lookout(world)
    spec = {"holderIdentity": "kuberay-abc", "renewTime": rfc3339_micro(world.wall())}
    body = {"metadata": {"name": "ray-operator-leader"}, "spec": spec}
    await world.user.create(LEASES, world.namespace, body)
    ((event, signs),) = await lookout.look()
    assert event == "operator.not_alone"
    assert signs == f"lease {world.namespace}/ray-operator-leader, held by kuberay-abc"
    await world.settle(120.0)
    assert await lookout.look() == [("operator.alone", "")]


class Written:
    """A client of a server on which another operator has written one object.

    Nothing else is there, and other kinds are not even defined.
    """

    def __init__(self, plural: str = "rayclusters", manager: str = "kuberay-operator") -> None:
        self.time: Any = None
        self.plural, self.manager = plural, manager

    async def request_json(self, _method: str, path: str, **_: Any) -> dict[str, Any]:
        if not path.endswith(f"/{self.plural}"):
            raise NotFound(Status(404))
        entry = {"manager": self.manager, "operation": "Update", "time": self.time}
        meta = {"namespace": "default", "name": "example", "managedFields": [{}, entry]}
        return {"items": [{"metadata": meta}]}


async def test_what_kuberay_writes_from_now_on_gives_it_away(world: World):
    written = Written()
    lookout = Lookout(world, client=written)
    for time in (None, "soon", rfc3339(world.wall() - timedelta(seconds=10))):
        written.time = time
        assert await lookout.look() == [], "it may have been stopped since"
    written.time = rfc3339(world.wall() + timedelta(seconds=10))
    ((_, signs),) = await lookout.look()
    assert signs == "RayCluster default/example, written by kuberay-operator"


@pytest.mark.parametrize(
    ("plural", "manager", "words"),
    [
        ("raycronjobs", "kuberay-operator", "RayCronJob default/example"),
        ("workspaces", "kaito-workspace", "Workspace default/example"),
        ("inferencesets", "kaito-workspace", "InferenceSet default/example"),
    ],
)
async def test_writes_of_each_kind_give_their_operator_away_where_no_other_kind_is_defined(
    world: World, plural: str, manager: str, words: str
):
    written = Written(plural, manager)
    lookout = Lookout(world, client=written, workspaces=True)
    written.time = rfc3339(world.wall() + timedelta(seconds=10))
    ((_, signs),) = await lookout.look()
    assert signs == f"{words}, written by {manager}"


class Reported:
    """A server with one event of each process, last reported at these times."""

    def __init__(self, **times: Any) -> None:
        self.events: list[dict[str, Any]] = [
            {
                "reportingController": "raycluster-controller",
                "reportingInstance": instance,
                "eventTime": time,
            }
            for instance, time in times.items()
        ]
        self.asked: list[Any] = []

    async def request_json(self, _method: str, path: str, *, query: Any) -> dict[str, Any]:
        if not path.endswith("/events"):
            raise NotFound(Status(404))
        self.asked.append(query["fieldSelector"])
        return {"items": self.events}


REPORTERS = ("raycluster-controller",)


async def test_another_process_that_reports_while_this_one_leads_is_named(world: World):
    await world.settle(3600)
    since = world.wall() - timedelta(minutes=5)
    late = rfc3339_micro(since + timedelta(minutes=2))
    reported = Reported(this=late, another=late)
    options: dict[str, Any] = {"instance": "this", "reporters": REPORTERS}
    lookout = Lookout(world, client=reported, leads_since=lambda: since, **options)
    told = [("operator.not_alone", "events of another process, another")]
    assert await lookout.look() == told
    assert reported.asked == ["reportingController=raycluster-controller"]
    assert lookout.count("manta") == 1

    again = reported.events[1]
    again |= {"eventTime": rfc3339_micro(since - timedelta(hours=1))}
    again |= {"series": {"count": 2, "lastObservedTime": late}}
    assert await lookout.look() == told, "its series goes on"

    reported.events[1] = {"reportingController": "raycluster-controller"} | {
        "deprecatedLastTimestamp": rfc3339(since + timedelta(minutes=2))
    }
    assert ("operator.not_alone", "events of raycluster-controller") in await lookout.look()
    assert (lookout.count("kuberay"), lookout.count("manta")) == (1, 0)


async def test_an_earlier_leader_or_process_is_no_other_operator(world: World):
    await world.settle(3600)
    now = world.wall()
    since = now - timedelta(minutes=5)
    before, in_doubt = since - timedelta(seconds=1), since + timedelta(minutes=1)
    reported = Reported(earlier=rfc3339_micro(before), skewed=rfc3339_micro(in_doubt))
    options: dict[str, Any] = {"instance": "this", "reporters": REPORTERS}
    assert await Lookout(world, client=reported, leads_since=lambda: since, **options).look() == []

    reported = Reported(leader=rfc3339_micro(now))
    standby = Lookout(world, client=reported, leads_since=lambda: None, **options)
    assert await standby.look() == []
    assert reported.asked == []


async def test_events_that_may_not_be_listed_are_asked_for_once(world: World):
    class Refusing(Reported):
        async def request_json(self, method: str, path: str, *, query: Any) -> dict[str, Any]:
            await super().request_json(method, path, query=query)
            raise Forbidden(Status(403))

    refusing = Refusing()
    options: dict[str, Any] = {"instance": "this", "reporters": [*REPORTERS, "rayjob-controller"]}
    lookout = Lookout(world, client=refusing, leads_since=world.wall, **options)
    assert await lookout.look() == []
    asked = len(refusing.asked)
    assert await lookout.look() == []
    assert len(refusing.asked) == asked <= 2


async def test_another_process_that_has_ended_is_forgotten_after_ten_minutes(world: World):
    await world.settle(7200)
    now = world.wall()
    options: dict[str, Any] = {"instance": "this", "reporters": REPORTERS}
    options["leads_since"] = lambda: now - timedelta(hours=1)
    ended = Reported(another=rfc3339_micro(now - timedelta(minutes=10, seconds=1)))
    assert await Lookout(world, client=ended, **options).look() == []
    ended = Reported(another=rfc3339_micro(now - timedelta(minutes=9)))
    assert len(await Lookout(world, client=ended, **options).look()) == 1


async def test_two_operators_without_an_election_notice_each_other_by_what_they_report(
    world: World,
):
    def lookout(operator: RunningOperator, instance: str) -> Lookout:
        def leads_since() -> datetime | None:
            return operator.operator.expectations.reader.clock_steady_since

        reporters = operator.operator.controllers
        return Lookout(world, instance=instance, reporters=reporters, leads_since=leads_since)

    one = world.start_operator(identity="one")
    await world.create_cluster("a")
    await world.eventually(lambda: world.is_ready("a"))
    await world.settle(120)
    first = lookout(one, "one")
    assert await first.look() == []
    two = world.start_operator(identity="two")
    await world.settle(120)
    second = lookout(two, "two")
    assert await second.look() == [], "what the first has reported is old"
    for number in range(4):
        await world.create_cluster(f"b{number}")
    await world.settle(30)
    told = [*await first.look(), *await second.look()]
    assert {signs for _, signs in told} == {
        "events of another process, one",
        "events of another process, two",
    }

    await two.kill()
    three = world.start_operator(identity="three")
    await world.settle(700)
    assert await lookout(three, "three").look() == [], "one is at rest, and two has ended"


async def test_what_may_not_be_read_is_left_out(world: World):
    severed = FaultyTransport(world.transport, [], clock=world.loop)
    severed.sever()
    lookout = Lookout(world, client=world.client("manta-operator", severed))
    assert await lookout.look() == []


async def test_it_looks_every_five_minutes(world: World):
    lookout = Lookout(world)
    world.background(lookout.others.run())
    await world.settle(1.0)
    await start(world, "other", KUBERAY)
    assert lookout.count("kuberay") == 0
    await world.settle(300.0)
    assert lookout.count("kuberay") == 1
