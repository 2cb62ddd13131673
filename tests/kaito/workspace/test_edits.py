"""Edits of what must not change: refused in Kaito's words, and without any consequence."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.revisions import WorkspaceRevision
from controller.kaito.api.workspace import Workspace
from controller.kaito.workspace.nodes import POOL_SCOPE
from controller.kaito.workspace.watches import REVISIONS
from controller.runtime.plan import Delete, MergePatch, Plan
from tests.kaito.support import inference, raw_workspace, tuning
from tests.kaito.workspace.given import Given, claim, own, server, writes
from tests.kaito.workspace.given_pool import GivenPool, pool

OTHER_MACHINE = "Standard_NC48ads_A100_v4"
CLAIMS = KaitoOptions()
OWN_NODES = KaitoOptions(provisioner=Provisioner.OWN_NODES, mig=True, accelerators=True)
TEMPLATE = {"spec": {"containers": [{"name": "s", "image": "example.com/s:1"}]}}
OTHER_TEMPLATE = {"spec": {"containers": [{"name": "s", "image": "example.com/s:2"}]}}
ADAPTER = {"source": {"name": "a", "image": "example.com/adapter:1"}}
NOTHING: Any = None


def with_field(raw: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The same object with another value at a path; None removes the field."""
    edited = copy.deepcopy(raw)
    *parents, last = path.split(".")
    place = edited
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is NOTHING:
        place.pop(last, None)
    else:
        place[last] = value
    return edited


def viewed(raw: dict[str, Any]) -> Workspace:
    return msgspec.convert(raw, Workspace)


class Served:
    """A Workspace that is served, whose user edits it."""

    def __init__(self, settings: KaitoOptions = CLAIMS, **changes: Any) -> None:
        self.settings = settings
        self.has_server = True
        self.raw = raw_workspace(**changes)
        if settings is OWN_NODES:
            self.raw["resource"].pop("instanceType", None)
        before = self._given(self.raw).with_revision()
        commit = before.plan().commit
        assert isinstance(commit, MergePatch)
        self.raw["metadata"] |= commit.patch["metadata"]
        self.revisions: list[dict[str, Any]] = [self.revision_of(self.raw)]

    def _given(self, raw: dict[str, Any]) -> Given:
        found = Given(viewed(raw), self.settings)
        if self.settings is CLAIMS:
            found.with_nodes()
        found.with_services()
        return found.with_server(server()) if self.has_server else found

    def revision_of(self, raw: dict[str, Any], number: int = 1) -> dict[str, Any]:
        """The ControllerRevision of a specification."""
        new = with_field(raw, "metadata.annotations", NOTHING)
        found = Given(viewed(new), self.settings)
        (create,) = found.creates(found.plan(), "ControllerRevision")
        metadata = {**create.body["metadata"], "uid": f"uid-revision-{number}"}
        return {"metadata": metadata, "revision": number, "data": create.body["data"]}

    def edited(self, path: str, value: Any, **annotations: str | None) -> Given:
        """What is there after an edit, which may overwrite annotations."""
        raw = with_field(self.raw, path, value)
        marks = raw["metadata"]["annotations"] | annotations
        raw["metadata"]["annotations"] = {key: marks[key] for key in marks if marks[key]}
        found = self._given(raw)
        views = [msgspec.convert(each, WorkspaceRevision) for each in self.revisions]
        found.reads.add(REVISIONS, *views)
        return found

    def unedited(self) -> Given:
        """What is there if nobody edits anything."""
        return self.edited("metadata.generation", 1)


def refusal(found: Given) -> str:
    """The message of a refused edit; empty if it is followed."""
    problem = found.kind.problem(found.observe())
    return problem.message if problem is not None else ""


def consequences(plan: Plan) -> tuple[Any, ...]:
    return writes(plan), plan.commit, plan.lookups, plan.subscriptions


def has_consequences(plan: Plan) -> bool:
    return bool(writes(plan) or plan.commit or plan.lookups or plan.subscriptions)


INSTANCE_TYPE = (
    "instanceType cannot be changed once set when node auto-provisioning is enabled: "
    "resource.instanceType"
)
REFUSED: list[tuple[dict[str, Any], str, Any, str]] = [
    ({}, "resource.instanceType", OTHER_MACHINE, INSTANCE_TYPE),
    ({}, "resource.count", 2, "field is immutable: resource.count"),
    (
        {},
        "resource.labelSelector",
        {"matchLabels": {"apps": "other"}},
        "field is immutable: resource.labelSelector",
    ),
    (
        {},
        "resource.labelSelector",
        {"matchExpressions": [{"key": "apps", "operator": "In", "values": ["phi"]}]},
        "field is immutable: resource.labelSelector",
    ),
    ({}, "inference.preset", {"name": "phi-4"}, "field is immutable: inference.preset"),
    (
        {},
        "inference.preset.presetOptions",
        {"modelAccessSecret": "other"},
        "field is immutable: inference.preset",
    ),
    (
        {},
        "inference",
        {"template": TEMPLATE},
        (
            "field cannot be unset/set if it was set/unset: inference.template\n"
            "field is immutable: inference.preset"
        ),
    ),
    (
        {"tuning": tuning()},
        "tuning.preset.name",
        "phi-3-mini-4k-instruct",
        "Preset cannot be changed: tuning.Preset",
    ),
    ({"tuning": tuning()}, "tuning.method", "lora", "Method cannot be changed: tuning.Method"),
    (
        {"tuning": tuning()},
        "tuning.input.name",
        "other",
        ("invalid value: During tuning Name field cannot be changed once set: tuning.Input.Name"),
    ),
]


@pytest.mark.parametrize(("before", "path", "value", "message"), REFUSED)
def test_an_edit_of_what_must_not_change_is_refused_in_kaitos_words(
    before: dict[str, Any], path: str, value: Any, message: str
):
    served = Served(**before)
    found = served.edited(path, value)
    plan = found.plan()
    name = served.revisions[0]["metadata"]["name"]
    assert refusal(found) == (
        f"{message}\nthe edit has no effect: restore the fields from ControllerRevision "
        f"{name}, or delete the workspace and create it again"
    )
    assert consequences(plan) == consequences(served.unedited().plan())
    assert found.condition("ResourceReady") == ("False", "InvalidWorkspaceSpec", refusal(found))
    assert plan.status is not None
    assert [each.reason for each in plan.status.events] == ["InvalidWorkspaceSpec"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("resource.instanceType", OTHER_MACHINE),
        ("resource.count", -1),
        ("inference.preset.name", "someone/model"),
        ("inference", NOTHING),
    ],
)
def test_what_had_begun_goes_on_as_before_a_refused_edit(path: str, value: Any):
    served = Served()
    served.has_server = False
    found, before = served.edited(path, value), served.unedited()
    assert refusal(found)
    (server_,) = found.creates(found.plan(), "StatefulSet")
    assert [server_] == before.creates(before.plan(), "StatefulSet")
    assert found.condition("ResourceReady")[:2] == ("False", "InvalidWorkspaceSpec")
    assert found.condition("NodesReady") == before.condition("NodesReady")


@pytest.mark.parametrize("which", ["tampered with", "another one"])
def test_only_the_revision_in_force_is_followed(which: str):
    served = Served()
    served.has_server = False
    if which == "tampered with":
        served.revisions[0]["data"]["inference"]["config"] = "other"
    else:
        served.revisions = [served.revision_of(with_field(served.raw, "inference.config", "other"))]
    found = served.edited("resource.count", -1)
    assert refusal(found)
    assert not has_consequences(found.plan())


def test_a_workspace_does_not_turn_from_serving_to_tuning():
    served = Served()
    served.raw.pop("inference")
    message = refusal(served.edited("tuning", tuning()))
    assert message.startswith(
        "Inference field cannot be toggled once set: spec.inference\n"
        "Tuning field cannot be toggled once set: spec.tuning\n"
    )


@pytest.mark.parametrize("machine", [OTHER_MACHINE, "Standard_" + "x" * 5000])
def test_the_event_comes_once(machine: str):
    served = Served()
    first = served.edited("resource.instanceType", machine)
    status = first.plan().status
    assert status is not None
    served.raw["status"] = status.wanted
    assert len(status.events) == 1
    again = served.edited("resource.instanceType", machine).plan().status
    assert again is not None
    assert (again.wanted["conditions"], again.events) == (status.wanted["conditions"], ())


def test_a_workspace_with_a_refused_edit_can_be_deleted():
    served = Served()
    served.raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:00Z"
    found = served.edited("resource.instanceType", OTHER_MACHINE)
    (delete,) = writes(found.plan())
    assert isinstance(delete, Delete)
    assert delete.target.resource == NODE_CLAIMS


ALLOWED: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "inference.config", "more"),
    ({}, "inference.adapters", [ADAPTER]),
    ({"inference": {"template": TEMPLATE}}, "inference.template", OTHER_TEMPLATE),
    ({}, "resource.preferredNodes", ["n1"]),
    ({"resource": {"count": None}}, "resource.count", 2),
    ({}, "resource.count", None),
    ({"tuning": tuning()}, "tuning.method", "QLoRA"),
    ({"tuning": tuning()}, "tuning.config", "more"),
    ({"tuning": tuning()}, "tuning.input.urls", ["https://example.com/other.parquet"]),
    ({"tuning": tuning()}, "tuning.output.image", "example.com/result:2"),
]


@pytest.mark.parametrize(("before", "path", "value"), ALLOWED)
def test_other_edits_get_a_revision(before: dict[str, Any], path: str, value: Any):
    found = Served(**before).edited(path, value)
    assert refusal(found) == ""
    (create,) = found.creates(found.plan(), "ControllerRevision")
    assert create.body["revision"] == 2


def test_with_own_nodes_the_instance_type_may_be_emptied_and_parts_of_gpus_may_not_change():
    served = Served(OWN_NODES, resource={"partition": {"mode": "accelerator", "count": 1}})
    served.revisions[0]["data"]["resource"]["instanceType"] = OTHER_MACHINE
    assert refusal(served.edited("inference.adapters", [ADAPTER])) == ""
    found = served.edited("resource.partition.count", 2)
    assert refusal(found).startswith("field is immutable: resource.partition\n")
    assert not has_consequences(found.plan())


def expression(operator: str, *values: str) -> dict[str, Any]:
    one = {"key": "a", "operator": operator, "values": list(values)}
    return {"matchLabels": {"apps": "phi"}, "matchExpressions": [one]}


def test_a_selector_that_selects_nothing_hinders_no_other_edit():
    served = Served(tuning=tuning(), resource={"labelSelector": expression("Exists")})
    assert refusal(served.edited("tuning.config", "other")) == ""
    found = served.edited("resource.labelSelector", expression("In", "b"))
    message = "Only allow matchLabels or 'IN' matchExpression: resource.labelSelector\n"
    assert refusal(found).startswith(message)


# which revision is in force


def histories() -> tuple[Served, dict[str, Any], dict[str, Any]]:
    """A Workspace, and two revisions of it: of what is in force, and of another machine."""
    served = Served()
    other = with_field(served.raw, "resource.instanceType", OTHER_MACHINE)
    return served, served.revisions[0], served.revision_of(other, 2)


@pytest.mark.parametrize("number", [2, 1], ids=["newer", "as new"])
@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_the_annotation_tells_which_revision_is_in_force_not_the_number(number: int, order: int):
    served, present, newer = histories()
    newer["revision"] = number
    served.revisions = [present, newer][::order]
    assert refusal(served.edited("inference.adapters", [ADAPTER])) == ""
    assert INSTANCE_TYPE in refusal(served.edited("resource.instanceType", OTHER_MACHINE))


@pytest.mark.parametrize("newest", [0, 1])
def test_who_overwrites_the_annotation_too_is_judged_by_the_newest_revision(newest: int):
    served, *served.revisions = histories()
    served.revisions[newest]["revision"] = 3
    found = served.edited("inference.adapters", [ADAPTER], **NO_MARKS)
    assert (INSTANCE_TYPE in refusal(found)) is (newest == 1)
    assert has_consequences(found.plan()) is (newest == 0)


NO_MARKS: dict[str, str | None] = {labels.HASH: None, labels.REVISION: None}


UNREADABLE: list[Any] = [
    None,
    {},
    [],
    "text",
    {"resource": {}, "inference": None, "tuning": None},
    {"resource": {"count": "many"}, "inference": inference()},
    {"resource": {"instanceType": ["x"]}, "inference": inference()},
    {"resource": {}, "inference": 7},
]


@pytest.mark.parametrize("data", UNREADABLE, ids=range(len(UNREADABLE)))
def test_an_unreadable_revision_is_passed_over_for_the_one_before(data: Any):
    served, present, _ = histories()
    hidden = copy.deepcopy(present)
    hidden["metadata"]["name"], hidden["revision"], hidden["data"] = "phi-odd", 9, data
    present["metadata"]["annotations"] = {}
    served.revisions = [hidden, present]
    assert INSTANCE_TYPE in refusal(served.edited("resource.instanceType", OTHER_MACHINE))
    assert refusal(served.edited("inference.adapters", [ADAPTER])) == ""


@pytest.mark.parametrize("data", UNREADABLE, ids=range(len(UNREADABLE)))
def test_if_it_is_unknown_what_there_was_no_node_goes(data: Any):
    served = Served()
    served.revisions[0]["data"] = data
    found = served.edited("resource.instanceType", OTHER_MACHINE)
    assert "no ControllerRevision of the workspace can be read" in refusal(found)
    assert '"Standard_NC24ads_A100_v4 apps=phi"' in refusal(found)
    assert not has_consequences(found.plan())


def deep() -> dict[str, Any]:
    """As deep as can be: whether it is read depends on the version of Python."""
    value: dict[str, Any] = {}
    for _ in range(900):
        value = {"a": value}
    return {"resource": value, "inference": {"template": value}}


def test_a_revision_that_is_too_deep_lets_no_node_go():
    served = Served()
    served.revisions[0]["data"] = deep()
    found = served.edited("resource.instanceType", OTHER_MACHINE)
    assert refusal(found)
    assert not has_consequences(found.plan())


def test_a_revision_of_a_claim_whose_write_is_not_known_counts_as_a_node():
    served = Served()
    served.revisions = []
    found = served.edited("resource.instanceType", OTHER_MACHINE)
    found.reads.objects.pop((NODE_CLAIMS.plural, claim().metadata.name))
    assert refusal(found) == ""
    found.reads.pending = frozenset({f"claim/{claim().metadata.name}"})
    assert "no ControllerRevision of the workspace can be read" in refusal(found)


def edited_pool(commit: bool = True) -> GivenPool:
    """An edit beside a NodePool, of which no revision tells."""
    patch = GivenPool().plan().commit
    assert isinstance(patch, MergePatch)
    marks: dict[str, Any] = patch.patch["metadata"]["annotations"] if commit else {}
    machine = {"instanceType": OTHER_MACHINE}
    return GivenPool(viewed(raw_workspace(annotations=marks, resource=machine)))


MARK = {"annotations": {labels.NODE_TEMPLATE: "Standard_NC24ads_A100_v4 apps=phi"}}


def test_if_it_is_unknown_what_there_was_no_pool_goes():
    marked, committed = edited_pool(commit=False), edited_pool()
    pending = edited_pool()
    marked.reads.add(NODE_POOLS, pool(metadata=MARK))
    committed.reads.add(NODE_POOLS, pool())
    pending.reads.pending = frozenset({POOL_SCOPE})
    for found in (marked, committed, pending):
        assert "no ControllerRevision of the workspace can be read" in refusal(found)
        assert not has_consequences(found.plan())


KAITOS_REVISION: dict[str, Any] = {
    "metadata": own(
        "phi-c692b",
        labels={labels.REVISION_OF: "phi"},
        annotations={
            labels.HASH: "c692b999495f9d29f9843e204de3f8d5971d637c9393c2f4cb1423572424afe8"
        },
    ),
    "revision": 4,
    "data": {
        "inference": {"preset": {"name": "phi-4", "accessMode": "public", "presetOptions": {}}},
        "resource": {"count": 1, "instanceType": OTHER_MACHINE, "labelSelector": None},
        "tuning": None,
    },
}
"""As Kaito writes it. The hash may be that of a version that hashes otherwise."""


def test_an_edit_between_kaito_and_manta_is_judged_by_kaitos_revision():
    marks = {labels.REVISION: "4", labels.HASH: "c692b" + "0" * 59}
    same: dict[str, Any] = {"instanceType": OTHER_MACHINE, "labelSelector": {}}
    preset = {"preset": {"name": "phi-4", "accessMode": "public"}}
    allowed = raw_workspace(
        annotations=marks, resource=same, inference={**preset, "adapters": [ADAPTER]}
    )
    for raw, message in (
        (allowed, ""),
        (with_field(allowed, "resource.instanceType", "Standard_NV1"), INSTANCE_TYPE),
        (with_field(allowed, "inference.preset.name", "phi-4-mini-instruct"), "inference.preset"),
        (with_field(allowed, "resource.labelSelector.matchLabels", {"a": "b"}), "labelSelector"),
    ):
        found = Given(viewed(raw))
        found.reads.add(REVISIONS, msgspec.convert(KAITOS_REVISION, WorkspaceRevision))
        assert message in refusal(found)
        assert bool(message) is bool(refusal(found))


# any edit of one field

"""Fields that stay as they are, and as what an error names them."""
