"""One paragraph about caches that are not complete: what failed, why, and the remedy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.kube.objects import KubeObject
from controller.kube.resources import INSTALL_CRDS, JOBS, PODS, Resource
from controller.runtime.cache import CacheScope, explain, failing
from informers import ConnectionRefused, Failed, InternalError
from tests.runtime.widgets import WIDGETS


def cache(resource: Any, error: Exception | None, namespace: str = "") -> Any:
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    seen = SimpleNamespace(description=f"{resource} {where}")
    return SimpleNamespace(
        scope=CacheScope(resource, namespace),
        informer=SimpleNamespace(statistics=lambda: seen),
        last_error=error,
    )


RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster", KubeObject)
GRANT = (
    'Grant the verbs "list" and "watch" on pods of API group "" to the operator\'s service account'
)
DOWN = (
    'conversion webhook for ray.io/v1alpha1, Kind=RayCluster failed: Post "https://kuberay.ray.svc'
    ':443/convert?timeout=30s": dial tcp 10.0.0.7:443: connect: connection refused'
)
REPAIR = (
    "The conversion webhook of the definition of rayclusters.ray.io does not answer: repair it, or "
    "remove spec.conversion from the definition."
)


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        (
            cache(PODS, Failed(401, "Unauthorized", "no")),
            "The API server does not accept the credentials: renew them.",
        ),
        (cache(PODS, Failed(403, "Forbidden", "no")), f"{GRANT} by a ClusterRole."),
        (cache(PODS, Failed(403, "Forbidden", "no"), "ns"), f"{GRANT} by a Role in namespace ns."),
        (
            cache(WIDGETS, Failed(404, "NotFound", "no")),
            "The API server does not serve widgets.test.dev in version v1.",
        ),
        (
            cache(RAY_CLUSTERS, Failed(404, "NotFound", "no")),
            f"Install the definitions: {INSTALL_CRDS}",
        ),
        (
            cache(PODS, ConnectionRefused("refused")),
            "The API server cannot be reached: check the address and the network.",
        ),
        (cache(RAY_CLUSTERS, Failed(500, "InternalError", "no")), "See the log for each attempt."),
        (cache(RAY_CLUSTERS, InternalError(DOWN)), REPAIR),
        (cache(RAY_CLUSTERS, Failed(500, "", DOWN)), REPAIR),
        (cache(PODS, None), "See the log for each attempt."),
    ],
)
def test_each_cause_has_its_remedy(missing: Any, remedy: str):
    text = failing(missing)
    assert explain([missing], 120.0) == (
        f"Gave up after 120 s because caches are not complete. C{text[1:]}. {remedy}"
    )


def test_words_that_end_with_a_full_stop_have_no_second_one():
    text = explain([cache(PODS, ConnectionRefused("Refused X.."))], 5.0)
    assert "Cannot list pods in all namespaces: Refused X. The API" in text


def test_a_server_that_does_not_say_what_it_has_is_named():
    said = explain((), 120.0)
    assert said.startswith("Gave up after 120 s because the API server did not say which resources")
    assert "discovery.failed" in said


@pytest.mark.parametrize(("count", "more"), [(5, False), (6, True)])
def test_five_caches_are_explained(count: int, more: bool):
    text = explain([cache(PODS, None)] * count, 5.0)
    assert ("The same is true of" in text) is more
    assert ("The same is true of 1 more. See" in text) is more


def test_a_remedy_for_many_is_given_once_and_long_lists_are_cut():
    refused = [cache(PODS, ConnectionRefused("refused")) for _ in range(9)]
    text = explain(refused, 5.0)
    assert text.count("check the address") == 1
    assert text.count("Cannot list pods") == 5
    assert "The same is true of 4 more." in text


def test_the_servers_own_words_are_kept():
    words = 'User "Bob" cannot list resource "pods"'
    assert words in explain([cache(PODS, Failed(403, "Forbidden", words))], 5.0)


def test_before_any_answer_that_is_what_is_said():
    assert failing(cache(JOBS, None)) == (
        "cannot list jobs.batch in all namespaces yet: no answer so far"
    )
