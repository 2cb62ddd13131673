"""Results that are remembered as long as an object, or its specification, stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.custom_object import CustomObject, SpecificationMemo
from controller.kube.objects import ObjectMeta


class Custom(CustomObject, frozen=True, gc=True, weakref=True):
    spec: Any = None


def custom(spec: Any = None, status: Any = None, **metadata: Any) -> Custom:
    named = ObjectMeta(name="a", namespace="default", **metadata)
    return Custom(metadata=named, spec={"size": spec}, status=status or {})


def counted() -> tuple[SpecificationMemo[Custom, int], list[Custom]]:
    """A memo that numbers its computations, and the objects that were given to them."""
    seen: list[Custom] = []

    def compute(obj: Custom) -> int:
        seen.append(obj)
        return len(seen)

    return SpecificationMemo(compute), seen


def test_another_status_and_revision_compute_nothing():
    memo, seen = counted()
    first = custom(1, {"phase": "on"}, resource_version="1")
    second = custom(1, {"phase": "off"}, resource_version="2")
    assert [memo(first), memo(second), memo(second)] == [1, 1, 1]
    assert (seen[0].status, seen[0].metadata.resource_version) == ({}, "")


@pytest.mark.parametrize(
    "edited",
    [
        custom(2),
        custom(1, generation=2),
        custom(1, annotations={"a": "b"}),
        custom(1, labels={"a": "b"}),
        custom(1, uid="another"),
        custom(1, deletion_timestamp="2026-01-01T00:00:00Z"),
    ],
)
def test_everything_else_is_computed_anew(edited: Custom):
    memo, _seen = counted()
    assert [memo(custom(1)), memo(edited), memo(custom(1))] == [1, 2, 3]


def test_what_no_longer_exists_is_forgotten():
    memo, seen = counted()
    obj = custom(1)
    memo(obj)
    assert memo.present("default/a", obj) is obj
    assert len(memo) == 1
    assert memo.present("default/a", None) is memo.present("default/never-seen", None) is None
    assert len(memo) == 0
    memo(custom(1))
    assert len(memo) == 1
    assert len(seen) == 2
