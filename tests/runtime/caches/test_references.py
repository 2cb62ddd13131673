"""Events of objects enqueue the primaries that refer to them, whoever owns the objects."""

from __future__ import annotations

from controller.kube.objects import KubeObject, ObjectMeta, OwnerReference
from controller.kube.resources import CONFIG_MAPS, PODS, SECRETS
from controller.runtime.caches.watches import owner_keys
from controller.runtime.kind import Owned, References


def named(name: str) -> KubeObject:
    return KubeObject(metadata=ObjectMeta(name=name, namespace="default"))


def keys_of(obj: KubeObject) -> tuple[str, ...]:
    return (obj.metadata.key,)


def test_an_object_enqueues_all_primaries_that_the_index_has_under_its_key():
    index = {("uses", "default/shared"): (named("a"), named("b"))}
    keys = owner_keys(
        CONFIG_MAPS,
        Owned(SECRETS, references=References("uses", keys_of, keys_of)),
        lambda _key: None,
        lambda by, key: index.get((by.index, key), ()),
    )
    assert keys(named("shared"), True) == ["default/a", "default/b"]
    assert keys(named("shared"), False) == ["default/a", "default/b"]
    assert keys(named("other"), True) == []


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
    assert keys(named("n1"), True) == ["default/a"]
