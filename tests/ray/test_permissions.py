"""The table of what the operator may do, and the chart's rules beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.resources import CERTIFICATES, EVENTS, ISSUERS, PODS, ROLES, SECRETS
from controller.ray.api import FeatureGates, labels
from controller.ray.api.batch_schedulers import PLUGINS, VOLCANO, WORKLOAD_API, BatchScheduler
from controller.ray.settings import ADDITIONS, PERMISSIONS, granted
from informers import Codec
from tests.chart.helm import KUBERAY_CHART, needs_helm, needs_kuberay_charts, only, rendered

GATES = FeatureGates.parse("RayClusterFleet=true,RayCronJob=true")
CHART = Path(__file__).parents[2] / "charts" / "manta-operator"
RULES: list[dict[str, Any]] = yaml.safe_load((CHART / "rules.yaml").read_text())


def chart_verbs() -> dict[str, set[str]]:
    return verbs_of(RULES)


def verbs_of(rules: list[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                name = f"{resource}.{group}" if group else resource
                found.setdefault(name, set()).update(rule["verbs"])
    return found


def test_the_chart_grants_nothing_that_kuberays_role_does_not_but_what_is_named():
    for name, verbs in chart_verbs().items():
        assert verbs <= PERMISSIONS.get(name, frozenset()) | ADDITIONS.get(name, frozenset()), name


@needs_helm
@needs_kuberay_charts
@pytest.mark.slow
def test_kuberays_role_is_the_one_of_its_chart():
    role = only("ClusterRole", [
        each for each in rendered(KUBERAY_CHART) if each["metadata"]["name"] == "kuberay-operator"
    ])  # fmt: skip
    theirs = verbs_of(role["rules"])
    for name, verbs in PERMISSIONS.items():
        assert theirs[name] == verbs, name


def test_the_chart_grants_what_is_named_as_an_addition():
    for name, verbs in ADDITIONS.items():
        others = PERMISSIONS.get(name, frozenset())
        assert not verbs & others
        assert chart_verbs()[name] == verbs | others


@pytest.mark.parametrize("scheduler", [VOLCANO, PLUGINS, WORKLOAD_API])
def test_the_groups_of_a_batch_scheduler_may_be_written_while_it_is_chosen(
    scheduler: BatchScheduler,
):
    chart = yaml.safe_load((CHART / "scheduler-rules.yaml").read_text())
    found = verbs_of(chart["KubernetesWAS" if scheduler is WORKLOAD_API else scheduler.name])
    assert set(found) == {str(each) for each in scheduler.groups}
    for resource in scheduler.groups:
        verbs = found[str(resource)]
        assert {"get", "list", "watch", "create", "delete"} <= verbs <= granted(resource)
        assert str(resource) not in chart_verbs()


def test_certificates_may_be_written_with_the_gate_of_mtls():
    found = verbs_of(yaml.safe_load((CHART / "certificate-rules.yaml").read_text()))
    assert found == {str(each): granted(each) for each in (ISSUERS, CERTIFICATES)}
    assert not found.keys() & chart_verbs().keys()


def test_what_is_watched_may_be_watched():
    kinds = kinds_of(KindSettings(), None)
    watched = {kind.primary for kind in kinds}
    watched |= {owned.resource for kind in kinds for owned in kind.owned}
    for resource in watched:
        assert {"list", "watch"} <= granted(resource), str(resource)
        assert {"list", "watch"} <= chart_verbs()[str(resource)], str(resource)


def test_only_what_another_kind_makes_may_be_created():
    kinds = kinds_of(KindSettings.from_environment(GATES, {}), None)
    made = {owned.resource for kind in kinds for owned in kind.owned}
    for kind in kinds:
        verbs = chart_verbs()[str(kind.primary)]
        assert ("create" in verbs) is (kind.primary in made), kind.primary
        assert ("delete" in verbs) is (kind.primary in made), kind.primary


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("secrets", {"patch"}),
        ("serviceaccounts", {"patch", "update"}),
        ("roles.rbac.authorization.k8s.io", {"patch"}),
        ("rolebindings.rbac.authorization.k8s.io", {"patch", "update"}),
        ("networkpolicies.networking.k8s.io", {"patch"}),
    ],
)
def test_the_gaps_of_kuberays_role_are_known(name: str, missing: set[str]):
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} - PERMISSIONS[
        name
    ] == missing


def test_subresources_are_named_as_in_rules():
    assert granted(PODS, "resize") == {"patch"}
    assert granted(EVENTS) == {"create", "list", "patch"}
    assert granted(ROLES, "nothing") == frozenset()


def test_only_secrets_of_clusters_are_watched_and_their_data_is_never_kept():
    watched = [
        owned.label_selector
        for kind in kinds_of(KindSettings(), None)
        for owned in kind.owned
        if owned.resource == SECRETS
    ]
    assert watched == [labels.CLUSTER]
    secret = {"metadata": {"name": "a"}, "data": {"auth_token": "czNjcjN0"}, "stringData": {}}
    page = {"kind": "SecretList", "metadata": {"resourceVersion": "1"}, "items": [secret]}
    (kept,) = Codec(SECRETS.view).page(json.dumps(page).encode()).objects
    assert kept.metadata.name == "a"
    assert "czNjcjN0" not in repr(kept)
