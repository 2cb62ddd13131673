"""The referee of routes sees weights that nothing ready can carry."""

from __future__ import annotations

from typing import Any

import pytest

from controller.devcluster.apiserver.store import Stored, StoredEvent
from controller.devcluster.rays.serve import Application, Deployment, SimulatedServe
from tests.simulation.route_referee import LATE, ReadyCapacity, RouteReferee

CLUSTERS = {"a": "uid of a", "b": "uid of b"}


class Rays:
    """Two Serves of four replicas each."""

    def __init__(self) -> None:
        self.running = {"uid of a": 4, "uid of b": 0}
        self.time = 0.0

    def serves(self) -> list[tuple[tuple[str, str, int], SimulatedServe]]:
        return [((uid, "head", 0), serve(running)) for uid, running in self.running.items()]

    def has_ready_head(self, _place: Any) -> bool:
        return True


def serve(running: int) -> SimulatedServe:
    deployment = Deployment(replicas=4, changed=0.0, target=running)
    application = Application({}, {"App": deployment}, 0.0)
    return SimulatedServe(0.0, applications={"hello": application}, capacity=running * 25)


class Life:
    """A route from cluster a to cluster b."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.ray: Any = Rays()
        self.ready = ReadyCapacity(self.ray, lambda: self.ray.time)
        self.referee = RouteReferee(self.violations, self.ready, CLUSTERS)
        self.weights = (100, 0)

    def runs(self, cluster: str, replicas: int, *, seconds: float = 1.0) -> None:
        self.ready.look()
        self.ray.time += seconds
        self.ray.running[CLUSTERS[cluster]] = replicas
        self.ready.look()

    def leads(self, *weights: int) -> None:
        before, self.weights = self.weights, weights
        stored = [Stored(route(each), number) for number, each in enumerate((before, weights))]
        table = "httproutes.gateway.networking.k8s.io"
        event = StoredEvent("MODIFIED", table, "default/s", 2, stored[1], stored[0])
        self.referee(event)


def route(weights: tuple[int, ...]) -> dict[str, Any]:
    backends = [
        {"name": f"{name}-serve-svc", "weight": weight}
        for name, weight in zip(CLUSTERS, weights, strict=False)
    ]
    return {"metadata": {"name": "s"}, "spec": {"rules": [{"backendRefs": backends}]}}


@pytest.fixture
def life() -> Life:
    return Life()


def test_i3_a_weight_that_exceeds_what_is_ready(life: Life):
    life.runs("b", 1)
    life.leads(50, 50)
    assert life.violations == ["I3: default/s leads 50 % to b, of which 25 % is ready"]


def test_a_weight_may_be_what_is_ready(life: Life):
    life.runs("b", 2)
    life.leads(50, 50)
    assert life.violations == []


def test_what_was_ready_a_moment_ago_may_still_be_believed(life: Life):
    life.runs("b", 2)
    life.runs("b", 1)
    life.leads(50, 50)
    assert life.violations == []
    life.runs("b", 1, seconds=LATE + 1)
    life.leads(40, 60)
    life.runs("b", 1, seconds=LATE + 1)
    life.leads(30, 70)
    assert len(life.violations) == 2


def test_when_both_cannot_carry_everything_each_gets_what_it_can(life: Life):
    life.runs("b", 1)
    life.runs("a", 1)
    life.leads(50, 50)
    assert life.violations == []


def test_a_weight_that_falls_is_never_wrong(life: Life):
    life.leads(0, 0)
    assert life.violations == []
