"""How a plan looks, and how differences are told."""

from __future__ import annotations

import io

from controller.command.planning.net_changes import ObjectChange, ObjectPlan, differences
from controller.command.planning.plan import write_text
from controller.command.planning.planner import three_way_patch


def told(old: object, new: object) -> list[tuple[object, ...]]:
    return [(each.path, each.old, each.new) for each in differences(old, new)]


def text(plan: ObjectPlan) -> str:
    stream = io.StringIO()
    write_text([plan], stream)
    return stream.getvalue()


def test_leaves_are_told_with_their_paths():
    old = {"a": {"b": 1, "c": 2}, "gone": True}
    new = {"a": {"b": 1, "c": 3}, "fresh": [1]}
    assert told(old, new) == [("a.c", 2, 3), ("gone", True, None), ("fresh", None, [1])]


def test_list_entries_are_matched_by_name_whatever_their_order():
    old = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    new = {"env": [{"name": "B", "value": "3"}, {"name": "A", "value": "1"}]}
    assert told(old, new) == [("env[B].value", "2", "3")]


def test_lists_without_names_are_told_whole():
    assert told({"args": ["a"]}, {"args": ["b"]}) == [("args", ["a"], ["b"])]


def test_a_patch_drops_what_the_last_applied_manifest_had():
    last = '{"spec":{"suspend":true,"rayVersion":"2"}}'
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    now = {
        "metadata": {"annotations": annotations},
        "spec": {"suspend": True, "rayVersion": "2", "by-others": 1},
    }
    assert three_way_patch(now, {"metadata": {}, "spec": {"rayVersion": "2"}}) == {
        "spec": {"suspend": None}
    }


def test_the_text_counts_names_and_explains():
    names = tuple(f"c-g-worker-{i}" for i in range(7))
    why = "it is named in workersToDelete"
    gone = ObjectChange("delete", "Pod", names, group="g", count=7, why=why)
    plan = ObjectPlan(
        kind="RayCluster", namespace="n", name="c", exists=True, items=(gone,), notes=("mind this",)
    )
    assert text(plan).splitlines() == [
        "RayCluster n/c: 7 to delete",
        "  the operator would",
        (
            "    - delete 7 Pods of group g: c-g-worker-0, c-g-worker-1, c-g-worker-2, "
            "c-g-worker-3, c-g-worker-4 and 2 more (it is named in workersToDelete)"
        ),
        "  note: mind this",
    ]


def test_nothing_to_do_is_said():
    assert text(ObjectPlan(kind="RayCluster", namespace="n", name="c", exists=True)) == (
        "RayCluster n/c: nothing to do\n"
    )


def test_a_refusal_is_said():
    lines = text(
        ObjectPlan(kind="RayCluster", namespace="n", name="c", problem="spec.x: no")
    ).splitlines()
    assert lines == [
        "RayCluster n/c (new): would be refused; nothing would be done",
        "  ! spec.x: no",
    ]
