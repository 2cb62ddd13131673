"""A cache of plain values knows what its kind declares and nothing else."""

from __future__ import annotations

import pytest

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.kind import Owned
from controller.runtime.overlay import NotCached
from controller.testing.reads import FakeReads
from tests.runtime.kit import OWNER, child
from tests.runtime.widgets import WIDGETS, WidgetKind


class Optional(WidgetKind):
    @property
    def owned(self) -> tuple[Owned, ...]:
        return (Owned(CONFIG_MAPS, optional=True),)


def test_what_is_owned_can_be_read_by_key_and_by_owner():
    reads = FakeReads(WidgetKind()).add(CONFIG_MAPS, child("a"))
    assert reads.get(CONFIG_MAPS, "default/a") == child("a")
    assert reads.by_index(CONFIG_MAPS, "owner", OWNER.uid) == [child("a")]
    assert reads.get(WIDGETS, "default/f") is None


def test_what_the_kind_does_not_declare_cannot_be_read():
    with pytest.raises(NotCached):
        FakeReads(WidgetKind()).get(PODS, "default/a")
    with pytest.raises(KeyError):
        FakeReads(WidgetKind()).by_index(CONFIG_MAPS, "node", "a")


def test_an_optional_resource_can_be_read_only_where_it_is_served():
    reads = FakeReads(Optional())
    assert not reads.serves(CONFIG_MAPS)
    with pytest.raises(NotCached):
        reads.get(CONFIG_MAPS, "default/a")
    assert reads.add(CONFIG_MAPS).serves(CONFIG_MAPS)
    assert reads.get(CONFIG_MAPS, "default/a") is None
