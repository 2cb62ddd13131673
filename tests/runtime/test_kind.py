"""Whose objects are an owner's."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.kind import owned_by
from controller.testing.reads import FakeReads
from tests.runtime.kit import OWNER, child
from tests.runtime.widgets import WidgetKind

CONTROLLER = Path(__file__).parents[2] / "controller"


def test_a_copy_in_another_namespace_belongs_to_nobody():
    owner = ObjectMeta(name="f", namespace="default", uid=OWNER.uid)
    original = child("a")
    metadata = msgspec.structs.replace(original.metadata, namespace="copies")
    copied = msgspec.structs.replace(original, metadata=metadata)
    reads = FakeReads(WidgetKind()).add(CONFIG_MAPS, original, copied)
    assert owned_by(reads, CONFIG_MAPS, owner) == [child("a")]


def test_no_planner_reads_objects_by_the_uid_of_their_owner_alone():
    by_uid = re.compile(r'by_index\([^)]*(?:"owner"|OWNER_INDEX)')
    found = [str(path) for path in CONTROLLER.rglob("*.py") if by_uid.search(path.read_text())]
    assert found == [str(CONTROLLER / "runtime/kind.py")]
