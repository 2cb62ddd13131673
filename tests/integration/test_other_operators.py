"""A second operator is noticed at the start and from time to time, by what it leaves."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.apimachinery.timestamps import rfc3339, rfc3339_micro
from controller.command.other_operators import OtherOperators
from controller.kube.errors import NotFound, Status
from controller.kube.objects import KubeObject, ObjectList
from controller.kube.resources import PODS, Resource
from tests.faults.faulty_transport import FaultyTransport

if TYPE_CHECKING:
    from tests.integration.harness import World

pytestmark = pytest.mark.embedded_only

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
    world: World, name: str, labels: dict[str, str], *, image: str = "operator"
) -> None:
    container = {"name": "operator", "image": image}
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

    async def list(self, *_: Any, **__: Any) -> ObjectList[KubeObject]:
        return ObjectList([], "1", "")

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
