"""Planning follows `Kind.creates`, whatever the graph of kinds looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.apimachinery.ownership import owner_reference
from controller.command.kinds import KindSettings, kinds_of
from controller.command.planning.dry_run import DryRun, NeverSettlesError
from controller.command.planning.snapshot import Snapshot
from controller.kube.objects import KubeObject
from controller.kube.resources import PODS, Resource
from controller.runtime.kind import ObjectUnreadable, Owned
from controller.runtime.plan import NOTHING, Create, Plan, Target

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def resource(name: str) -> Resource[Any]:
    return Resource("test.dev", "v1", f"{name.lower()}s", name, KubeObject)


APPS, DATABASES, FRONT_ENDS, VOLUMES = map(resource, ("App", "Database", "FrontEnd", "Volume"))


@dataclass(frozen=True)
class ToyKind:
    """Creates one object of each resource in `creates`, one after the other."""

    primary: Resource[Any]
    creates: tuple[Resource[Any], ...] = ()
    endless: bool = False
    name: str = "toy-controller"
    observed: list[str] = field(default_factory=list[str], compare=False)

    @property
    def owned(self) -> tuple[Owned[Any], ...]:
        return tuple(Owned(each) for each in self.creates)

    def observe(self, key: str, reads: Any) -> Any:
        self.observed.append(key)
        toy = reads.get(self.primary, key)
        if toy is None:
            return None
        uid = toy.metadata.uid
        return toy, {each: len(reads.by_index(each, "owner", uid)) for each in self.creates}

    def problem(self, observation: Any) -> None:
        return None

    def plan(self, observation: Any, now: datetime) -> Plan:
        toy, counts = observation
        missing = [each for each, count in counts.items() if not count or self.endless]
        if not missing:
            return NOTHING
        meta = toy.metadata
        name = f"{meta.name}-{missing[0].kind.lower()}" + str(counts[missing[0]] or "")
        owner = owner_reference(self.primary, meta)
        body = {"metadata": {"name": name, "ownerReferences": [owner]}}
        return Plan(stages=((Create(Target(missing[0], meta.namespace, name), body),),))


def dry_run_of(kinds: Sequence[Any]) -> DryRun:
    snapshot = Snapshot(kinds, now=NOW)
    app = {"metadata": {"name": "app", "namespace": "n", "uid": "app"}}
    snapshot.add(kinds[0].primary, [app])
    return DryRun(snapshot, NOW)


def test_a_pod_that_cannot_be_read_is_counted_as_such():
    kinds = kinds_of(KindSettings(), None)
    snapshot = Snapshot(kinds, now=NOW)
    meta = {"name": "odd", "namespace": "n", "labels": {"a": "b"}}
    snapshot.add(PODS, [{"metadata": meta, "spec": {"containers": "none"}}])
    with pytest.raises(ObjectUnreadable, match="Pod n/odd cannot be decoded: spec"):
        snapshot.get(PODS, "n/odd")
    ((name, odd),) = snapshot.unreadable(PODS, "n").items()
    assert (name, odd.metadata.labels) == ("odd", {"a": "b"})
    assert "containers" in odd.reason
    assert not snapshot.unreadable(PODS, "elsewhere")


def names(kinds: Sequence[Any]) -> list[str]:
    return [kind.primary.kind for kind in kinds]


def test_what_is_created_for_a_new_object_is_reconciled_over_every_path():
    kinds: list[Any] = [
        ToyKind(APPS, creates=(DATABASES, FRONT_ENDS)),
        ToyKind(DATABASES, creates=(VOLUMES,)),
        ToyKind(FRONT_ENDS, creates=(DATABASES, VOLUMES)),
        ToyKind(VOLUMES),
    ]
    dry_run = dry_run_of(kinds)
    dry_run.reconcile_with_created(kinds, "n/app")
    assert sorted(write.target.name for write in dry_run.writes) == [
        "app-database",
        "app-database-volume",
        "app-frontend",
        "app-frontend-database",
        "app-frontend-database-volume",
        "app-frontend-volume",
    ]


@dataclass(frozen=True)
class PatientKind(ToyKind):
    """Creates its objects ten seconds after the first plan."""

    def plan(self, observation: Any, now: datetime) -> Plan:
        if now < NOW + timedelta(seconds=10):
            return Plan(requeue_after=10.0)
        return super().plan(observation, now)


def test_an_object_is_planned_again_when_its_time_has_come():
    kinds: list[Any] = [PatientKind(APPS, creates=(VOLUMES,)), ToyKind(VOLUMES)]
    dry_run = dry_run_of(kinds)
    dry_run.reconcile_with_created(kinds, "n/app", patience=timedelta(minutes=1))
    assert [write.target.name for write in dry_run.writes] == ["app-volume"]


def test_a_kind_that_never_settles_is_an_error():
    kinds: list[Any] = [ToyKind(APPS, creates=(VOLUMES,), endless=True)]
    with pytest.raises(NeverSettlesError, match="App n/app"):
        dry_run_of(kinds).reconcile(kinds[0], "n/app")


def test_kinds_that_create_each_other_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("controller.command.planning.dry_run.MOST_ROUNDS", 20)
    kinds: list[Any] = [ToyKind(APPS, creates=(VOLUMES,)), ToyKind(VOLUMES, creates=(APPS,))]
    with pytest.raises(NeverSettlesError, match="created for App n/app"):
        dry_run_of(kinds).reconcile_with_created(kinds, "n/app")


def test_every_kind_names_the_served_kinds_whose_objects_it_owns():
    kinds = kinds_of(KindSettings(), None)
    primaries = {kind.primary for kind in kinds}
    for kind in kinds:
        assert set(kind.creates) == {each.resource for each in kind.owned} & primaries, kind.name
