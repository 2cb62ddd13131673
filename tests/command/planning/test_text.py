"""How a plan looks, what it follows, and what is refused without an API server."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.__main__ import main
from controller.apimachinery.metadata import owner_reference
from controller.command.kinds import KindSettings, kinds_of
from controller.command.planning.dry_run import DryRun, NeverSettlesError
from controller.command.planning.net_changes import ObjectChange, ObjectPlan, differences
from controller.command.planning.plan import write_text
from controller.command.planning.planner import three_way_patch
from controller.command.planning.snapshot import Snapshot
from controller.kube.objects import KubeObject
from controller.kube.resources import PODS, Resource
from controller.runtime.kind import ObjectUnreadable, Owned
from controller.runtime.plan import NOTHING, Create, Plan, Target


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


EXAMPLE = Path(__file__).parents[3] / "examples" / "raycluster.yaml"

Container = dict[str, Any]


def no_image(_spec: dict[str, Any], container: Container) -> None:
    del container["image"]


def unknown_volume(_spec: dict[str, Any], container: Container) -> None:
    container["volumeMounts"] = [{"name": "nowhere", "mountPath": "/a"}]


def request_above_limit(_spec: dict[str, Any], container: Container) -> None:
    container["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


def wrong_policy(_spec: dict[str, Any], container: Container) -> None:
    container["imagePullPolicy"] = "Sometimes"


def unknown_field(spec: dict[str, Any], _container: Container) -> None:
    spec["workerGroupSpec"] = []


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (no_image, "image: Required value"),
        (unknown_volume, 'volumeMounts[0].name: Not found: "nowhere"'),
        (request_above_limit, "must be less than or equal to cpu limit"),
        (wrong_policy, 'imagePullPolicy: Unsupported value: "Sometimes"'),
        (unknown_field, "workerGroupSpec: is unknown (did you mean workerGroupSpecs?)"),
    ],
)
def test_what_an_api_server_would_refuse_is_told_and_makes_it_fail(
    mistake: Callable[[dict[str, Any], Container], None],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    spec = manifest["spec"]
    mistake(spec, spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0])
    file = tmp_path / "mistaken.yaml"
    file.write_text(yaml.safe_dump(manifest))
    assert main(["plan", "--offline", "-f", str(file)]) == 1
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("issuer", ["cert-manager", "manta"])
def test_a_cluster_with_mtls_is_planned_with_its_certificates_and_without_their_contents(
    issuer: str, capsys: pytest.CaptureFixture[str]
):
    manifest = str(EXAMPLE.with_name("raycluster-mtls.yaml"))
    options = ["--feature-gates=RayClusterMTLS=true", f"--mtls-issuer={issuer}"]
    assert main(["plan", "--offline", *options, "-f", manifest]) == 0
    text = capsys.readouterr().out
    made = {line.split("create ")[1] for line in text.splitlines() if "+ create" in line}
    assert "head Pod: example-head-*" in made
    assert "1 Pod of group workers: example-workers-worker-*" in made
    secrets = {each for each in made if each.startswith("Secret: ")}
    certificates = {each for each in made if each.startswith("Certificate: ")}
    assert (len(secrets), len(certificates)) == ((3, 0) if issuer == "manta" else (0, 3))


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
