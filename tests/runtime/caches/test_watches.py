"""Several kinds may own one resource if they agree on how it is watched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from controller.kube.objects import KubeObject
from controller.kube.resources import PODS, Resource
from controller.runtime.caches.watches import merge_watches
from controller.runtime.reconcile.kind import Owned

if TYPE_CHECKING:
    from collections.abc import Sequence


def kind(name: str, *owned: Owned[Any]) -> Any:
    primary = Resource("test.dev", "v1", f"{name}s", name.capitalize(), KubeObject)
    return SimpleNamespace(name=name, primary=primary, optional=False, owned=owned)


def by_name(obj: KubeObject) -> Sequence[str]:
    return (obj.metadata.name,)


def by_namespace(obj: KubeObject) -> Sequence[str]:
    return (obj.metadata.namespace,)


def test_three_kinds_share_one_watch_and_each_may_add_an_index():
    watches = merge_watches(
        [
            kind("cluster", Owned(PODS, "app=ray", {"name": by_name})),
            kind("job", Owned(PODS, "app=ray", {"name": by_name})),
            kind("service", Owned(PODS, "app=ray", {"namespace": by_namespace})),
        ]
    )
    assert watches[PODS].label_selector == "app=ray"
    assert set(watches[PODS].indexes) == {"owner", "name", "namespace"}


def test_different_selectors_are_an_error_that_names_both_kinds_and_the_remedy():
    kinds = [kind("cluster", Owned(PODS, "app=ray")), kind("job", Owned(PODS, "app=job"))]
    with pytest.raises(ValueError, match=r"cluster .*'app=ray', job with 'app=job'.*one place"):
        merge_watches(kinds)


def test_one_index_with_two_functions_is_an_error_that_names_both_kinds():
    kinds = [
        kind("cluster", Owned(PODS)),
        kind("job", Owned(PODS, indexes={"name": by_name})),
        kind("service", Owned(PODS, indexes={"name": by_namespace})),
    ]
    with pytest.raises(ValueError, match=r"job and service .*index 'name' of pods.*one place"):
        merge_watches(kinds)
