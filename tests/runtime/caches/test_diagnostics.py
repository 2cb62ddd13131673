"""One paragraph about caches that are not complete: what failed, why, and the remedy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.kube.resources import JOBS, PODS
from controller.runtime.caches.diagnostics import explain, failing
from controller.runtime.expectations.cache_barrier import CacheScope
from informers import ConnectionRefused, Failed
from tests.runtime.widgets import WIDGETS


def cache(resource: Any, error: Exception | None, namespace: str = "") -> Any:
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    seen = SimpleNamespace(description=f"{resource} {where}")
    return SimpleNamespace(
        scope=CacheScope(resource, namespace),
        informer=SimpleNamespace(statistics=lambda: seen),
        last_error=error,
    )


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        (cache(PODS, Failed(401, "Unauthorized", "no")), "renew them"),
        (cache(PODS, Failed(403, "Forbidden", "no")), "by a ClusterRole."),
        (cache(PODS, Failed(403, "Forbidden", "no"), "ns"), "by a Role in namespace ns."),
        (cache(WIDGETS, Failed(404, "NotFound", "no")), "does not serve widgets.test.dev"),
        (cache(PODS, ConnectionRefused("refused")), "check the address and the network"),
        (cache(PODS, Failed(500, "InternalError", "no")), "See the log"),
        (cache(PODS, None), "See the log"),
    ],
)
def test_each_cause_has_its_remedy(missing: Any, remedy: str):
    text = explain([missing], 120.0)
    assert text.startswith("Gave up after 120 s because caches are not complete.")
    assert remedy in text
    assert "\n" not in text


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
