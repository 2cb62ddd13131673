"""Several kinds may own one resource if they agree on how it is watched."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.objects import KubeObject, ObjectMeta, OwnerReference
from controller.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES, Resource
from controller.ray.api import FeatureGates
from controller.runtime.kind import Owned, References
from controller.runtime.watches import merge_watches, owner_keys


def kind(name: str, *owned: Owned[Any], optional: bool = False) -> Any:
    primary = Resource("test.dev", "v1", f"{name}s", name.capitalize(), KubeObject)
    return SimpleNamespace(name=name, primary=primary, optional=optional, owned=owned)


def by_name(obj: KubeObject) -> Sequence[str]:
    return (obj.metadata.name,)


def by_namespace(obj: KubeObject) -> Sequence[str]:
    return (obj.metadata.namespace,)


def test_different_selectors_are_an_error_that_names_both_kinds_and_the_remedy():
    kinds = [kind("cluster", Owned(PODS, "app=ray")), kind("job", Owned(PODS, "app=job"))]
    with pytest.raises(ValueError, match=r"cluster .*'app=ray', job with 'app=job'.*one place"):
        merge_watches(kinds)


def test_parts_of_a_resource_are_watched_apart_under_names_of_their_own():
    part = replace(PODS, part="servers")
    kinds = [kind("cluster", Owned(PODS, "app=ray")), kind("server", Owned(part, "app=server"))]
    watches = merge_watches(kinds)
    assert (watches[PODS].label_selector, watches[part].label_selector) == (
        "app=ray",
        "app=server",
    )
    assert (str(PODS), str(part)) == ("pods", "pods (servers)")
    assert part.path("default", "a") == PODS.path("default", "a")


def test_all_kinds_together_agree_on_their_watches():
    gates = FeatureGates.parse("AllAlpha=true,AllBeta=true,Workspace=true")
    watches = merge_watches(kinds_of(KindSettings.from_environment(gates, {}), None))
    assert len({str(resource) for resource in watches}) == len(watches)
    assert {"workspaces.kaito.sh", "rayclusterfleets.manta.dev"} <= {str(each) for each in watches}


def test_one_index_with_two_functions_is_an_error_that_names_both_kinds():
    kinds = [
        kind("cluster", Owned(PODS)),
        kind("job", Owned(PODS, indexes={"name": by_name})),
        kind("service", Owned(PODS, indexes={"name": by_namespace})),
    ]
    with pytest.raises(ValueError, match=r"job and service .*index 'name' of pods.*one place"):
        merge_watches(kinds)


def test_what_one_kind_requires_is_not_optional_for_others():
    kinds = [
        kind("cluster", Owned(PODS, optional=True), Owned(SERVICES, optional=True)),
        kind("job", Owned(PODS), Owned(SERVICES, optional=True), optional=True),
        kind("service", Owned(PODS, optional=True)),
    ]
    watches = merge_watches(kinds)
    optional = {str(resource): watch.optional for resource, watch in watches.items()}
    assert optional == {
        "clusters.test.dev": False,
        "jobs.test.dev": True,
        "services.test.dev": False,
        "pods": False,
        "services": True,
    }
    assert all(isinstance(each, bool) for each in optional.values())


def test_the_words_about_kinds_that_disagree():
    def message(*kinds: Any) -> str:
        with pytest.raises(ValueError, match="one place") as raised:
            merge_watches(kinds)
        return str(raised.value)

    remedy = "Kinds that own one resource must declare its watch in one place and share it."
    assert message(kind("cluster", Owned(PODS, "a")), kind("job", Owned(PODS, "b"))) == (
        f"cluster watches pods with the label selector 'a', job with 'b'. {remedy}"
    )
    indexed = [
        kind("job", Owned(PODS, indexes={"name": by_name})),
        kind("service", Owned(PODS, indexes={"name": by_name})),
        kind("other", Owned(PODS, indexes={"name": by_namespace})),
    ]
    assert message(*indexed) == (
        f"job and other declare different functions for the index 'name' of pods. {remedy}"
    )


def named(name: str) -> KubeObject:
    return KubeObject(metadata=ObjectMeta(name=name, namespace="default"))


def keys_of(obj: KubeObject) -> tuple[str, ...]:
    return (obj.metadata.key,)


def test_an_object_enqueues_the_owners_of_those_that_refer_to_it():
    owner = OwnerReference(
        api_version="v1", kind="ConfigMap", name="a", uid="uid-of-a", controller=True
    )
    meta = ObjectMeta(name="pod", namespace="default", owner_references=(owner,))
    index = {("node", "default/n1"): (KubeObject(metadata=meta), named("stray"))}
    by = References("node", keys_of, keys_of, through=PODS)
    keys = owner_keys(
        CONFIG_MAPS,
        Owned(SECRETS, references=by),
        {"default/a": "uid-of-a"}.get,
        lambda by, key: index.get((by.index, key), ()),
    )
    assert keys([named("n1")], True) == ["default/a"]
