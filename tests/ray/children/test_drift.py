"""One child against the object under its name, whatever kind owns it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.resources import SERVICES
from controller.ray.children.child import Child, ChildState, OwnerConflict, observe_child
from tests.ray.cluster.support import UID, cache, meta, owner

BODY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "a", "namespace": "default", "labels": {"app": "a"}},
}
OURS = {"owner_references": (owner(UID),), "labels": {"app": "a"}}


def observe(child: Child, **present: Any) -> Any:
    reads = cache()
    if present:
        reads.add(SERVICES, SERVICES.view(metadata=meta("a", **present)))
    return observe_child(child, "default", UID, reads)


def test_a_child_without_an_object_is_missing():
    assert observe(Child(SERVICES, BODY)).state is ChildState.MISSING


def test_a_child_as_desired_has_no_drift():
    observed = observe(Child(SERVICES, BODY), **OURS)
    assert (observed.state, observed.drift) == (ChildState.PRESENT, None)


def test_a_child_that_differs_has_a_patch_of_what_differs():
    observed = observe(Child(SERVICES, BODY), **(OURS | {"labels": {"app": "b", "other": "c"}}))
    assert observed.drift.patch == {"metadata": {"labels": {"app": "a"}}}


def test_a_terminating_child_is_not_compared():
    gone = OURS | {"deletion_timestamp": "2026-08-20T09:59:00Z", "labels": {}}
    observed = observe(Child(SERVICES, BODY), **gone)
    assert (observed.state, observed.drift) == (ChildState.TERMINATING, None)


@pytest.mark.parametrize(
    ("on_conflict", "state"),
    [(OwnerConflict.ADOPT, ChildState.PRESENT), (OwnerConflict.BLOCK, ChildState.OWNER_CONFLICT)],
)
def test_only_a_child_to_adopt_may_be_without_a_controller(on_conflict, state):
    assert observe(Child(SERVICES, BODY, on_conflict), labels={"app": "a"}).state is state


def test_an_object_of_another_controller_is_a_conflict():
    foreign = OURS | {"owner_references": (owner("other"),)}
    observed = observe(Child(SERVICES, BODY, OwnerConflict.ADOPT), **foreign)
    assert observed.state is ChildState.OWNER_CONFLICT
