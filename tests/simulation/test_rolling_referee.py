"""The referee of rolling updates sees what must never be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.ray.api.upgrade_strategy import ReplicaBudget
from controller.ray.cluster import rolling
from controller.ray.rolling import Moves
from tests.simulation.outcome import shortcomings
from tests.simulation.rolling_referee import Worker, head_lapses, lapses
from tests.simulation.rolling_wish import RollingWish
from tests.simulation.scenario import (
    Cluster,
    Compact,
    EditPods,
    Group,
    Rolling,
    Scenario,
    Step,
    Surroundings,
)
from tests.simulation.simulation import play
from tests.simulation.user import IMAGES, manifest
from tests.simulation.wishes import Wish, wish_of

OLD, NEW = f"{IMAGES['ray']} 1", f"{IMAGES['ray']} 2"


def wish(
    *replicas: int, hosts: int = 1, image: str = "ray", edition: int = 2, **settings: Any
) -> Wish:
    """A cluster with groups of so many replicas, all of them of this edition."""
    groups = tuple(Group(number, count, hosts=hosts) for number, count in enumerate(replicas))
    body = manifest("a", Cluster(groups, rolling=Rolling(**settings)))
    body["metadata"]["generation"] = 2
    for group in body["spec"]["workerGroupSpecs"]:
        ray = group["template"]["spec"]["containers"][0]
        ray |= {"image": IMAGES[image], "env": [{"name": "EDITION", "value": str(edition)}]}
    return wish_of(body)


def old(name: str, **more: Any) -> Worker:
    return Worker(name, name, OLD, **more)


def new(name: str, **more: Any) -> Worker:
    return Worker(name, name, NEW, **more)


def said(wanted: Wish, *workers: Worker, head: str = OLD) -> list[str]:
    return list(lapses([wanted], {"g0": workers}, head))


def test_one_is_drained_when_another_has_come():
    assert said(wish(2), old("a", drains=True), old("b"), new("c")) == []


def test_one_is_drained_before_another_has_come():
    told = said(wish(2), old("a", drains=True), old("b"), new("c", ready=False))
    assert told == ["a is taken, which leaves 1 of 2 available"]


def test_one_may_be_missing_if_the_settings_say_so():
    assert said(wish(2, unavailable=1), old("a", drains=True), old("b")) == []
    told = said(wish(2, unavailable=1), old("a", drains=True), old("b", drains=True))
    assert told == ["a is taken, which leaves 0 of 1 available"]


def test_what_an_operator_has_taken_is_not_available_whatever_it_sees():
    told = said(wish(2), old("a", drains=True), old("b", taken=True), new("c"))
    assert told == ["a is taken, which leaves 1 of 2 available"]


def test_unready_ones_go_at_any_time():
    assert said(wish(2), old("a", ready=False, goes=True), old("b")) == []


def test_a_worker_that_is_deleted_without_a_drain_counts_as_taken():
    told = said(wish(2), old("a", goes=True), old("b"))
    assert told == ["a is taken, which leaves 1 of 2 available"]


def test_drained_workers_go():
    assert said(wish(2), old("a", draining=True, goes=True), old("b"), new("c")) == []


def test_a_replica_of_several_hosts_is_available_as_a_whole():
    first, second = (replace(old(f"a{n}", drains=True), unit="a") for n in (0, 1))
    third, fourth = (replace(new(f"b{n}"), unit="b") for n in (0, 1))
    wanted = wish(1, hosts=2)
    assert list(lapses([wanted], {"g0": [first, second, third, fourth]}, OLD)) == []
    told = list(lapses([wanted], {"g0": [first, second, third]}, OLD))
    assert told == ["a0 is taken, which leaves 0 of 1 available"]


def test_nothing_is_drained_that_is_up_to_date():
    told = said(wish(1), new("a", drains=True), new("b"))
    assert told == ["a is drained, and nobody asked for that"]


def test_nothing_is_drained_while_the_update_is_paused():
    told = said(wish(1, paused=True), old("a", drains=True), new("b"))
    assert told == ["a is drained, and nobody asked for that"]


def test_nothing_is_drained_with_another_strategy():
    told = said(replace(wish(1), rolling=None), old("a", drains=True), new("b"))
    assert told[0] == "a is drained, and nobody asked for that"


def test_nothing_goes_that_is_up_to_date():
    told = said(wish(2), new("a", goes=True), old("b"), new("c"))
    assert "a is up to date and goes, which leaves 1 of 2" in told


def test_of_an_unknown_version_one_is_tried_first():
    wanted = wish(2, image="own", surge=1)
    told = said(wanted, old("a", drains=True), old("b"), new("c", ready=False))
    assert "a of g0 is taken before a pod of the new image has joined" in told
    tried = Worker("d", "d", f"{IMAGES['own']} 2")
    assert said(wanted, old("a", drains=True), old("b"), tried) == []


def test_what_a_scale_down_takes_waits_for_no_trial():
    wanted = wish(2, image="own", surge=2)
    assert said(wanted, old("a", goes=True), old("b", goes=True), old("c"), old("d")) == []
    told = said(wanted, old("a", goes=True), old("b", goes=True), old("c"))
    assert "a of g0 is taken before a pod of the new image has joined" in told


def test_what_lacks_a_host_waits_for_no_trial():
    wanted = wish(2, hosts=2, image="own", surge=1)
    first = replace(old("a", goes=True), unit="u")
    second = replace(old("b", goes=True), unit="u")
    assert said(wanted, first, replace(second, ready=False)) == []
    assert said(wanted, first) == []
    told = said(wanted, first, second)
    assert "u of g0 is taken before a pod of the new image has joined" in told


def test_the_image_of_the_head_needs_no_trial():
    wanted = wish(2, image="own")
    assert said(wanted, old("a", drains=True), old("b"), old("c"), head=IMAGES["own"]) == []


def test_without_a_surge_one_makes_room_for_the_trial():
    wanted = wish(3, image="own", surge=0, unavailable=2)
    assert said(wanted, old("a", drains=True), old("b"), old("c")) == []
    told = said(wanted, old("a", drains=True), old("b", drains=True), old("c"))
    assert told == ["a of g0 is taken before a pod of the new image has joined"]


def test_groups_are_replaced_one_after_the_other():
    wanted = wish(1, 1)
    groups = {"g0": [old("a", draining=True), new("b")], "g1": [old("c", drains=True), new("d")]}
    told = list(lapses([wanted], groups, OLD))
    assert told == ["groups ['g0', 'g1'] are replaced at a time, not 1"]
    assert list(lapses([wish(1, 1, parallel=2)], groups, OLD)) == []


@pytest.mark.parametrize("going", ["terminating", "lost"])
def test_a_terminating_replica_delays_no_other_group(going: str):
    first, second = (replace(old(f"a{n}", draining=True), unit="a") for n in (0, 1))
    following = {"g1": [old("c", drains=True), new("d")]}
    wanted = wish(1, 1, hosts=2)
    told = list(lapses([wanted], {"g0": [first, second], **following}, OLD))
    assert "groups ['g0', 'g1'] are replaced at a time, not 1" in told
    gone = replace(second, **{going: True})
    told = list(lapses([wanted], {"g0": [first, gone], **following}, OLD))
    assert not any("at a time" in each for each in told)


def test_an_edit_that_the_operator_has_not_seen_excuses_what_was_right_before():
    groups = {"g0": [old("a", drains=True), old("b")]}
    assert list(lapses([wish(1), wish(2, edition=1)], groups, OLD)) == []


def test_the_head_is_the_last():
    wanted = [wish(2)]
    told = list(head_lapses(wanted, {"g0": [old("a"), new("b")]}))
    assert told == ["the head goes before a"]
    assert list(head_lapses(wanted, {"g0": [new("a"), new("b")]})) == []
    assert list(head_lapses(wanted, {"g0": [old("a", lost=True), new("b")]})) == []


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [(1, 0, (1, 0)), ("25%", "25%", (2, 1)), (0, "10%", (0, 1)), ("50%", 0, (3, 0))],
)
def test_percentages_of_five(surge: int | str, unavailable: int | str, expected: tuple[int, int]):
    wanted = RollingWish(surge, unavailable, 1, paused=False)
    assert (wanted.surge_of(5), wanted.unavailable_of(5)) == expected


def cluster(**upgrading: Any) -> dict[str, Any]:
    """One with a head only, and what it says of its update."""
    body = manifest("a", Cluster(rolling=Rolling(), storage="rocksdb"))
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Upgrading", **upgrading}]
    status = {"state": "ready", "observedGeneration": 1, "conditions": conditions}
    body["metadata"] |= {"uid": "uid", "generation": 1}
    return body | {"status": status}


def head(image: str, **annotations: str) -> dict[str, Any]:
    owner = {"controller": True, "uid": "uid"}
    labels = {"ray.io/node-type": "head"}
    meta = {"name": "h", "ownerReferences": [owner], "labels": labels, "annotations": annotations}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": meta, "spec": {"containers": [{"image": image}]}, "status": ready}


def test_at_the_end_every_pod_is_of_the_newest_edition():
    done = cluster(status="False", reason="Complete")
    assert shortcomings([done], [head(IMAGES["ray"])], []) == []
    told = shortcomings([done], [head(IMAGES["gpu"])], [])
    assert told == [f"h is of edition {IMAGES['gpu']!r}, not {IMAGES['ray']!r}"]


@pytest.mark.parametrize("kind", ["RollingUpdate", "None"])
def test_at_the_end_nothing_drains_whatever_the_strategy(kind: str):
    done = cluster(status="False", reason="Complete")
    done["spec"]["upgradeStrategy"]["type"] = kind
    stamped = head(IMAGES["ray"], **{"manta.dev/draining-since": "now"})
    assert shortcomings([done], [stamped], []) == ["pod h is still draining"]


def test_at_the_end_the_update_is_complete():
    told = shortcomings([cluster(status="True", reason="Rolling")], [head(IMAGES["ray"])], [])
    assert told[0].startswith("a is still being upgraded")


def test_an_outdated_head_may_stay_where_its_state_would_be_lost():
    stuck = cluster(status="True", reason="HeadNeedsFaultTolerance")
    del stuck["spec"]["gcsFaultToleranceOptions"]
    assert shortcomings([stuck], [head(IMAGES["gpu"])], []) == []


ROLLS = Scenario(
    Surroundings(),
    (Cluster((Group(0, 2),), storage="redis", rolling=Rolling()),),
    (Step(10.0, EditPods(0, 0, 1)), Step(0.0, EditPods(0, -1, 1)), Step(60.0, Compact())),
)


def test_an_update_that_is_carried_out_well_is_not_blamed():
    assert play(ROLLS).violations == ()


def test_one_worker_more_than_the_surge_is_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ReplicaBudget, "surge_of", lambda _budget, _desired: 2)
    assert any("is number 4, at most 3 were asked for" in each for each in play(ROLLS).violations)


def test_one_worker_too_few_is_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ReplicaBudget, "unavailable_of", lambda _budget, _desired: 1)
    assert any("which leaves 1 of 2 available" in each for each in play(ROLLS).violations)


def test_a_head_that_goes_with_all_that_it_knows_is_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rolling, "is_gcs_fault_tolerant", lambda _cluster, _spec: True)
    (body,) = ROLLS.clusters
    life = msgspec.structs.replace(ROLLS, clusters=(msgspec.structs.replace(body, storage=""),))
    told = play(life).violations
    assert any("head" in each and "nobody asked for that" in each for each in told)


def test_workers_that_stay_as_they_were_are_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rolling, "next_moves", lambda *_args, **_options: Moves())
    assert any("not reached" in each for each in play(ROLLS).violations)
