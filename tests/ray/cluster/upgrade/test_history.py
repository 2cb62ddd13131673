"""Which templates of a cluster's pods are kept as ControllerRevisions, and for how long."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.kube.objects import ControllerRevision
from controller.kube.resources import CONTROLLER_REVISIONS, PODS
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.upgrade import KEPT, LARGEST, history_notes
from controller.ray.pods.hashes import template_digest
from controller.runtime.kind import CreateError
from controller.runtime.plan import Create, Delete, Failure, Plan, Replace
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import (
    NOW,
    UID,
    cluster,
    head,
    manifest,
    owner,
    plan,
    pod,
    reads,
    seen_with,
    with_children,
    with_status,
    workers,
)

ROLLING = {"type": "RollingUpdate"}


def edition(image: str = "rayproject/ray:2.60.0", **spec: Any) -> dict[str, Any]:
    """The example under RollingUpdate, with this image in its workers."""
    raw = manifest()
    raw["spec"] |= {"upgradeStrategy": ROLLING} | spec
    template = raw["spec"]["workerGroupSpecs"][0]["template"]
    template["spec"]["containers"][0]["image"] = image
    return raw


def rolling(raw: dict[str, Any] | None = None, *revisions: Any) -> FakeReads:
    """A cache in which nothing is missing but, maybe, a revision."""
    kept = reads(cluster(raw or edition()), head(), *workers(2))
    return with_children(kept.add(CONTROLLER_REVISIONS, *revisions))


def writes(made: Plan) -> list[Any]:
    found = [*(write for stage in made.stages for write in stage), *made.independent]
    return [write for write in found if write.target.resource is CONTROLLER_REVISIONS]


def observed(kept: FakeReads) -> ClusterObservation:
    seen = RayClusterKind().observe("default/example", kept)
    assert seen is not None
    return seen


def stored(create: Create, number: int | None = None) -> ControllerRevision:
    """What a create leads to, or the same with another number."""
    body = {**create.body, "revision": number or create.body["revision"]}
    body["metadata"] = body["metadata"] | {"uid": f"uid-of-{create.target.name}"}
    return msgspec.convert(body, ControllerRevision)


def revision_of(raw: dict[str, Any], number: int | None = None) -> ControllerRevision:
    [create] = writes(plan(rolling(raw)))
    return stored(create, number)


def older(number: int, **annotations: str) -> ControllerRevision:
    return msgspec.convert(
        {
            "metadata": {
                "name": f"example-old{number:02}",
                "namespace": "default",
                "uid": f"uid-{number}",
                "annotations": annotations,
                "ownerReferences": [msgspec.to_builtins(owner())],
            },
            "revision": number,
        },
        ControllerRevision,
    )


def test_the_first_templates_are_the_first_revision():
    raw = edition()
    raw["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first of all"}
    [create] = writes(plan(rolling(raw)))
    assert isinstance(create, Create)
    body = create.body
    assert body["revision"] == 1
    assert body["metadata"]["labels"] == {"ray.io/cluster": "example"}
    assert body["metadata"]["ownerReferences"][0]["uid"] == UID
    assert body["metadata"]["annotations"]["kubernetes.io/change-cause"] == "first of all"
    groups = raw["spec"]["workerGroupSpecs"]
    hashes = {"": str(template_digest(raw["spec"]["headGroupSpec"]))}
    hashes |= {group["groupName"]: str(template_digest(group)) for group in groups}
    assert msgspec.json.decode(body["metadata"]["annotations"][labels.TEMPLATE_HASHES]) == hashes


@pytest.mark.parametrize("strategy", [{}, {"type": "None"}, {"type": "Recreate"}])
def test_without_rolling_updates_nothing_is_kept(strategy: dict[str, str]):
    kept = rolling(edition(upgradeStrategy=strategy))
    assert writes(plan(kept)) == []
    assert not observed(kept).awaits_revision


def test_the_annotation_for_kuberays_definition_keeps_them_too():
    raw = edition(upgradeStrategy={})
    raw["metadata"]["annotations"] = {labels.UPGRADE_STRATEGY: "RollingUpdate"}
    assert len(writes(plan(rolling(raw)))) == 1


def test_templates_that_come_back_become_the_newest_revision():
    first = revision_of(edition())
    second = revision_of(edition("rayproject/ray:2.61.0"), 2)
    [patch] = writes(plan(rolling(edition(), first, second)))
    assert isinstance(patch, Replace)
    assert (patch.target.name, patch.merge) == (first.metadata.name, {"revision": 3})


def test_replacing_pods_waits_until_the_new_templates_are_kept():
    first = revision_of(edition())
    other = edition("rayproject/ray:2.61.0")
    assert observed(rolling(other, first)).awaits_revision
    assert not observed(rolling(other, first, revision_of(other, 2))).awaits_revision


def test_while_the_outcome_of_a_create_is_unknown_it_is_not_repeated_and_nothing_waits():
    kept = rolling()
    [create] = writes(plan(kept))
    kept.pending = frozenset({create.target.scope})
    assert writes(plan(kept)) == []
    assert not observed(kept).awaits_revision


def test_at_most_ten_are_kept_and_the_oldest_go_first():
    known = [older(number) for number in range(1, KEPT + 2)]
    made = writes(plan(rolling(edition(), *reversed(known))))
    deleted = [write.target.name for write in made if isinstance(write, Delete)]
    assert deleted == ["example-old01", "example-old02"]
    assert sum(isinstance(write, Create) for write in made) == 1


@pytest.mark.parametrize("spoilt", ["{", "[" * 2000])
def test_a_revision_that_pods_were_made_from_stays(spoilt: str):
    hashes = msgspec.json.encode({"": "3-HEAD", "workers": "3-OLD"}).decode()
    used = older(1, **{labels.TEMPLATE_HASHES: hashes})
    odd = older(3, **{labels.TEMPLATE_HASHES: spoilt})
    others = [older(2), odd, *(older(number) for number in range(4, KEPT + 2))]
    kept = rolling(edition(), used, *others)
    outdated = {"manta.dev/pod-template-hash": "3-OLD"}
    kept.add(PODS, pod("example-workers-worker-99999999", annotations=outdated))
    deleted = [w.target.name for w in writes(plan(kept)) if isinstance(w, Delete)]
    assert deleted == ["example-old02", "example-old03"]


def test_huge_templates_are_not_kept_which_is_said_and_hinders_nothing():
    raw = edition()
    raw["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = {
        "annotations": {"a": "x" * LARGEST}
    }
    kept = rolling(raw)
    made = plan(kept)
    assert writes(made) == []
    assert not observed(kept).awaits_revision
    assert "`manta rollout undo` will not find them" in children_message(made)


def children_message(made: Plan) -> str:
    assert made.status is not None
    conditions = made.status.wanted["conditions"]
    found = [each for each in conditions if each["type"] == "ChildrenAsSpecified"]
    return str(found[0]["message"]) if found else ""


def test_a_refused_revision_is_said_tried_again_and_hinders_nothing():
    kept = rolling()
    seen, made = observed(kept), plan(kept)
    [create] = writes(made)
    failure = Failure(create, "Forbidden", "exceeded quota: small")
    status = RayClusterKind().status_after(seen, made, (failure,), NOW)
    assert status is not None
    ready = {each["type"]: each for each in status.wanted["conditions"]}["Ready"]
    assert ready["status"] == "True"
    kept.refused[f"ControllerRevision/{create.target.key}"] = CreateError(
        "Forbidden", "exceeded quota: small"
    )
    made = plan(kept)
    assert writes(made) == [create]
    assert not observed(kept).awaits_revision
    assert "Forbidden: exceeded quota: small" in children_message(made)


def test_a_revision_whose_create_has_no_outcome_for_long_is_said_once_and_hinders_nothing():
    kept = rolling()
    seen, made = observed(kept), plan(kept)
    [create] = writes(made)
    failure = Failure(create, "InternalError", "etcd said no", unknown=True)
    kind = RayClusterKind()
    early = kind.status_after(seen, made, (failure,), NOW)
    assert early is not None
    assert children_message(replace(made, status=early)) == ""
    late = kind.status_after(seen, made, (replace(failure, overdue=True),), NOW)
    assert late is not None
    said = children_message(replace(made, status=late))
    assert said.endswith("will not find them: InternalError: etcd said no")
    assert [each.note for each in late.events if "Revision" in each.reason] == [said]

    kept.add(RAYCLUSTERS, with_status(seen.cluster, dict(late.wanted)))
    other = replace(failure, overdue=True, message="etcd said no again")
    again = kind.status_after(observed(kept), made, (other,), NOW)
    assert again is not None
    assert "again" in children_message(replace(made, status=again))
    assert not [each for each in again.events if "Revision" in each.reason]


def test_other_writes_of_revisions_and_other_creates_are_no_matter_of_the_history():
    raw = edition()
    known = [older(number) for number in range(1, KEPT + 2)]
    deletes = [each for each in writes(plan(rolling(raw, *known))) if isinstance(each, Delete)]
    [pod_create] = plan(with_children(reads(cluster(raw)))).stages[0]
    failures = [
        Failure(each, "InternalError", "etcd said no", unknown=True, overdue=True)
        for each in (*deletes, pod_create)
    ]
    assert history_notes(failures) == ()


def test_a_revision_of_another_object_under_the_name_is_said():
    kept = rolling()
    [create] = writes(plan(kept))
    kept.taken.add(f"ControllerRevision/{create.target.key}")
    made = plan(kept)
    assert writes(made) == []
    assert "belongs to another object" in children_message(made)


def test_a_refused_revision_for_which_no_message_has_room_is_said_once():
    kept = rolling()
    seen, made = observed(kept), plan(kept)
    failure = Failure(writes(made)[0], "InternalError", "no", unknown=True, overdue=True)
    (said,) = history_notes([failure])
    notes = tuple(replace(said, message=f"{number}: " + "x" * 99) for number in range(99))
    seen = replace(seen, children=replace(seen.children, notes=notes))
    kind = RayClusterKind()
    first = kind.status_after(seen, made, (failure,), NOW)
    assert first is not None
    assert [each.note for each in first.events if each.reason == said.event] == [said.message]
    told = seen_with(seen, dict(first.wanted))
    again = kind.status_after(told, made, (failure,), NOW)
    assert again is not None
    assert [each for each in again.events if each.reason == said.event] == []
