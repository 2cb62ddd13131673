"""The kind that docs/adding-a-kind.md walks through works as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.kube.client import Client
from controller.kube.objects import ConfigMap
from controller.kube.resources import CONFIG_MAPS, CRDS, PODS
from controller.runtime.children import Seen
from controller.runtime.plan import Create, Delete, Failure, MergePatch, Plan
from controller.testing.cluster import EPOCH, Cluster
from controller.testing.faults import DelayedRequest, on_write
from controller.testing.reads import FakeReads
from examples.kinds.widget.widget import WIDGETS, Widget, WidgetKind

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "kinds" / "widget"
KIND = WidgetKind()


def manifest(name: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / name).read_text())


async def test_pods_become_ready_while_there_are_nodes(cluster: Cluster):
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    await cluster.user.create(PODS, "default", body)

    async def phase() -> str:
        return (await cluster.user.get(PODS, "default", "a")).status.phase

    await cluster.settle(60)
    assert await phase() != "Running"
    async with cluster.nodes():
        await cluster.settle(60)
        assert await phase() == "Running"


async def running_operator(cluster: Cluster, **others: Any) -> Client:
    await cluster.user.create(CRDS, "", manifest("crd.yaml"))
    cluster.run_operator(KIND, **others)
    return cluster.user


async def ready(user: Client) -> tuple[str, str]:
    widget = await user.get(WIDGETS, "default", "hello")
    found = [c for c in widget.status.get("conditions", []) if c["type"] == "Ready"]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


async def copies(user: Client) -> dict[str, ConfigMap]:
    listed = await user.list(CONFIG_MAPS, "default", label_selector="example.dev/widget")
    return {copy.metadata.name: copy for copy in listed.items}


def observed(*children: ConfigMap, reads: FakeReads | None = None, copies: int = 3) -> Seen[Widget]:
    """The example with these ConfigMaps."""
    widget = msgspec.convert(manifest("widget.yaml"), Widget)
    metadata = msgspec.structs.replace(widget.metadata, namespace="default", uid="uid-hello")
    spec = msgspec.structs.replace(widget.spec, copies=copies)
    reads = (reads or FakeReads(KIND)).add(
        WIDGETS, msgspec.structs.replace(widget, metadata=metadata, spec=spec)
    )
    seen = KIND.observe("default/hello", reads.add(CONFIG_MAPS, *children))
    assert seen is not None
    return seen


def copy(name: str, *, data: dict[str, str] | None = None, terminating: bool = False) -> ConfigMap:
    owner = {"kind": "Widget", "name": "hello", "uid": "uid-hello", "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "ownerReferences": [owner],
        "deletionTimestamp": "2026-01-01T00:00:00Z" if terminating else None,
    }
    return msgspec.convert({"metadata": metadata, "data": data or {"text": "Hello"}}, ConfigMap)


def writes(plan: Plan) -> list[tuple[type, str]]:
    return [(type(write), write.target.name) for stage in plan.stages for write in stage]


def ready_in(plan: Plan) -> tuple[str, str]:
    assert plan.status is not None
    (condition,) = plan.status.wanted["conditions"]
    return condition["reason"], condition["message"]


def test_missing_copies_are_created_and_surplus_ones_deleted():
    plan = KIND.plan(observed(copy("hello-0"), copy("hello-7")), EPOCH)
    assert writes(plan) == [(Create, "hello-1"), (Create, "hello-2"), (Delete, "hello-7")]
    assert ready_in(plan)[1] == "ConfigMap: 1 of 3 exist; 1 more are to be deleted"


def test_at_rest_nothing_is_planned():
    plan = KIND.plan(observed(*(copy(f"hello-{number}") for number in range(3))), EPOCH)
    assert (writes(plan), ready_in(plan)) == ([], ("Complete", ""))


def test_only_the_text_is_put_back_and_what_others_add_stays():
    changed = copy("hello-0", data={"text": "Bye", "more": "mine"})
    added = copy("hello-1", data={"text": "Hello", "more": "mine"})
    plan = KIND.plan(observed(changed, added, copies=2), EPOCH)
    ((patch,),) = plan.stages
    assert isinstance(patch, MergePatch)
    assert (patch.uid, patch.patch) == ("uid-hello-0", {"data": {"text": "Hello"}})


def test_nothing_is_planned_while_a_write_has_an_unknown_outcome():
    reads = FakeReads(KIND, pending=frozenset({"configmaps"}))
    assert KIND.plan(observed(copy("hello-7"), reads=reads), EPOCH).stages == ()


def test_a_terminating_copy_keeps_its_name_and_is_no_copy():
    plan = KIND.plan(observed(copy("hello-0", terminating=True), copies=1), EPOCH)
    assert (writes(plan), ready_in(plan)[0]) == ([], "Progressing")


def test_a_name_of_another_owner_is_left_alone_and_named():
    reads = FakeReads(KIND, taken={"ConfigMap/default/hello-1"})
    plan = KIND.plan(observed(copy("hello-0"), reads=reads, copies=2), EPOCH)
    assert writes(plan) == []
    assert ready_in(plan) == (
        "Blocked",
        "ConfigMap hello-1 belongs to another owner: delete or rename one of the two",
    )


def test_a_wrong_specification_is_reported_and_deletes_nothing():
    plan = KIND.plan(observed(copy("hello-0"), copies=10**9), EPOCH)
    assert (writes(plan), ready_in(plan)) == (
        [],
        ("InvalidWidgetSpec", "spec.copies: must be 0 to 100"),
    )


def test_the_first_write_that_failed_is_the_cause_but_not_one_whose_answer_may_still_come():
    seen = observed()
    plan = KIND.plan(seen, EPOCH)
    first, second, third = plan.stages[0]
    lost = Failure(first, "Timeout", "no answer", unknown=True)
    refused = Failure(second, "Forbidden", "the quota is full")
    after = KIND.status_after(seen, plan, (lost, refused, Failure(third, "Else", "")), EPOCH)
    assert after is not None
    (condition,) = after.wanted["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Forbidden")
    assert KIND.status_after(seen, plan, (lost,), EPOCH) == plan.status


async def test_a_widget_gets_its_copies_follows_its_spec_and_says_what_is_wrong(cluster: Cluster):
    user = await running_operator(cluster)
    await user.create(WIDGETS, "default", manifest("widget.yaml"))
    await cluster.settle(5)
    assert sorted(await copies(user)) == ["hello-0", "hello-1", "hello-2"]
    assert await ready(user) == ("Complete", "")

    await user.merge_patch(WIDGETS, "default", "hello", {"spec": {"copies": 1, "text": "Hi"}})
    await cluster.settle(5)
    assert {name: copy.data for name, copy in (await copies(user)).items()} == {
        "hello-0": {"text": "Hi"}
    }

    await user.merge_patch(WIDGETS, "default", "hello", {"spec": {"copies": -1}})
    await cluster.settle(5)
    assert (await ready(user))[0] == "InvalidWidgetSpec"
    assert sorted(await copies(user)) == ["hello-0"], "a wrong specification deletes nothing"
    assert await cluster.operators[0].stop() == 0


async def test_a_name_that_is_taken_is_used_once_it_is_free(cluster: Cluster):
    user = await running_operator(cluster)
    other = {"metadata": {"name": "hello-1"}, "data": {"mine": "yes"}}
    await user.create(CONFIG_MAPS, "default", other)
    await user.create(WIDGETS, "default", manifest("widget.yaml"))
    await cluster.settle(5)
    assert sorted(await copies(user)) == ["hello-0", "hello-2"]
    assert (await ready(user))[0] == "Blocked"
    await user.delete(CONFIG_MAPS, "default", "hello-1")
    await cluster.settle(90)
    assert sorted(await copies(user)) == ["hello-0", "hello-1", "hello-2"]
    assert await ready(user) == ("Complete", "")


async def test_an_operator_that_is_killed_before_its_last_create_is_followed_by_another(
    cluster: Cluster,
):
    user = await running_operator(cluster, rules=[on_write(DelayedRequest(9), 3, "configmaps")])
    await user.create(WIDGETS, "default", manifest("widget.yaml"))
    await cluster.settle(5)
    assert sorted(await copies(user)) == ["hello-0", "hello-1"]
    await cluster.operators[0].kill()
    cluster.run_operator(KIND)
    await cluster.settle(5)
    assert sorted(await copies(user)) == ["hello-0", "hello-1", "hello-2"]


def test_the_page_shows_a_whole_test(pytester: pytest.Pytester):
    """Run the block of docs/adding-a-kind.md, with what the page says of conftest.py."""
    page = (ROOT / "docs" / "adding-a-kind.md").read_text()
    (test,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    helper = f"""
import pathlib, yaml

def manifest(name):
    return yaml.safe_load((pathlib.Path({str(FOLDER)!r}) / name).read_text())
"""
    pytester.makeconftest('pytest_plugins = ["controller.testing.plugin"]')
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makepyfile(helper + test)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_example_stays_small():
    assert len((FOLDER / "widget.py").read_text().splitlines()) <= 70
