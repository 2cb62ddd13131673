"""The referee of disruptions sees each harm for which it is there, and excuses what is right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.ray.job import table
from tests.simulation.disruptions import DisruptionsOfLife
from tests.simulation.scenario import Fate, Job, Scenario, Step, Surroundings, TakeNode
from tests.simulation.simulation import play

LOSES_ITS_HEAD = Scenario(
    Surroundings(scheduling=True),
    (),
    (Step(15.0, TakeNode(0, "vanish")), Step(0.0, TakeNode(1, "vanish"))),
    jobs=(Job(fates=(Fate(running=40.0),), disruptions=1),),
)


@pytest.mark.slow
def test_an_attempt_whose_head_was_taken_away_must_not_count(monkeypatch: pytest.MonkeyPatch):
    assert play(LOSES_ITS_HEAD).violations == ()
    monkeypatch.setattr(table, "is_lost_to_disruption", lambda *_: False)
    told = play(LOSES_ITS_HEAD).violations
    assert any("counts an attempt whose head was taken away" in each for each in told)


class Seen(DisruptionsOfLife):
    """A referee that knows one cluster, and a worker with work until 9 s."""

    def __init__(self, **spec: Any) -> None:
        self._world: Any = SimpleNamespace(loop=SimpleNamespace(time=lambda: 5.0))
        self._violations, self._left = [], {"n": 4.0}
        self.ray: Any = SimpleNamespace(work={"busy": 9.0})
        self._spec = spec

    def _cluster(self, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": self._spec}

    def ends(self, uid: str, role: str = "worker", *, announced: bool = True) -> str:
        annotations = {"manta.dev/disruption": "x"} if announced else {}
        labels = {"ray.io/cluster": "a", "ray.io/node-type": role}
        metadata = {"name": "p", "uid": uid, "labels": labels, "annotations": annotations}
        self._judge_end({"metadata": metadata, "status": {"phase": "Running"}})
        return " ".join(self._violations)

    def marks(self, node: str) -> str:
        self._judge_mark({"metadata": {"name": "p"}, "spec": {"nodeName": node}})
        return " ".join(self._violations)


def test_only_a_worker_that_is_taken_away_and_drained_may_be_deleted():
    assert Seen().ends("idle") == ""
    assert "has work until 9.000 s" in Seen().ends("busy")
    assert "nobody takes it away" in Seen().ends("idle", announced=False)
    assert "head p was deleted" in Seen().ends("idle", "head")
    assert Seen(suspend=True).ends("busy", announced=False) == ""


def test_only_a_worker_whose_node_goes_may_be_drained():
    assert Seen().marks("n") == ""
    late = Seen()
    late._left = {"n": -90.0}
    assert "is drained, and nobody takes it away" in late.marks("n")
