"""Feature gates as an administrator gives them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.validation import Problem
from controller.ray.api import ClusterSpec, FeatureGates, validate_cluster
from tests.ray.cluster.support import cluster, manifest


def test_what_is_not_chosen_has_its_default():
    gates = FeatureGates.parse("")
    assert gates.enabled("RayMultiHostIndexing")
    assert gates.enabled("GCSFaultToleranceEmbeddedStorage")
    assert gates.enabled("RayCronJob")
    assert not gates.enabled("RayClusterMTLS")


def test_the_choice_of_the_administrator_counts():
    gates = FeatureGates.parse(" RayMultiHostIndexing = false, RayClusterMTLS=1,")
    assert not gates.enabled("RayMultiHostIndexing")
    assert gates.enabled("RayClusterMTLS")


def test_a_gate_for_a_whole_stage_yields_to_the_gates_themselves():
    gates = FeatureGates.parse("RayCronJob=false,AllAlpha=true,AllBeta=false")
    assert gates.enabled("RayClusterFleet")
    assert not gates.enabled("RayCronJob")
    assert not gates.enabled("RayMultiHostIndexing")


def test_what_needs_more_rights_is_enabled_by_its_own_name_only():
    assert not FeatureGates.parse("AllAlpha=true").enabled("Workspace")
    assert FeatureGates.parse("Workspace=true,AllAlpha=false").enabled("Workspace")


def test_values_that_change_nothing_are_named_with_the_reason():
    gates = FeatureGates.parse("RayClusterMTLS=true,RayClusterStatusConditions=false,RayCronJob=1")
    assert gates.without_effect() == {"RayClusterStatusConditions": "the feature is always on"}
    assert FeatureGates.parse("RayClusterStatusConditions=1").without_effect() == {}


def test_protection_that_does_not_exist_is_refused_whatever_the_gates_say():
    asked = cluster(manifest(), authOptions={"mode": "certificate"})
    for gates in ("", "AllAlpha=true,AllBeta=true"):
        problem = validate_cluster(asked, FeatureGates.parse(gates))
        assert isinstance(problem, Problem)
        assert problem.field == "spec.authOptions.mode"


def test_mtls_needs_its_gate_which_no_other_gate_sets():
    asked = cluster(manifest(), tlsOptions={"enabled": True})
    for gates in ("", "AllAlpha=true,AllBeta=true"):
        problem = validate_cluster(asked, FeatureGates.parse(gates))
        assert isinstance(problem, Problem)
        assert problem.field == "spec.tlsOptions"
    gate = FeatureGates.parse("RayClusterMTLS=true")
    assert not isinstance(validate_cluster(asked, gate), Problem)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Nonsense=true", "there are AllAlpha, AllBeta, GCSFaultToleranceEmbeddedStorage, "),
        ("RayCronJob", "must be true or false"),
        ("RayCronJob=yes", "must be true or false"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused_with_what_there_is(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        FeatureGates.parse(text)


def with_rocksdb(raw: dict[str, Any]) -> None:
    raw["spec"]["gcsFaultToleranceOptions"] = {"backend": "rocksdb"}


def with_network_policy(raw: dict[str, Any]) -> None:
    raw["spec"]["networkPolicy"] = {}


def with_history(raw: dict[str, Any]) -> None:
    env = [{"name": "STORAGE_BACKEND", "value": "local"}]
    raw["spec"]["historyServerOptions"] = {"collectorOptions": {"image": "i", "env": env}}


def with_suspended_group(raw: dict[str, Any]) -> None:
    raw["spec"]["workerGroupSpecs"][0]["suspend"] = True


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        (with_rocksdb, "GCSFaultToleranceEmbeddedStorage"),
        (with_suspended_group, "RayJobDeletionPolicy"),
        (with_network_policy, "RayClusterNetworkPolicy"),
        (with_history, "RayClusterHistoryServer"),
    ],
)
def test_what_is_switched_off_is_refused_with_the_name_of_its_gate(change: Any, gate: str):
    raw = manifest()
    change(raw)
    assert isinstance(validate_cluster(cluster(raw)), ClusterSpec)
    problem = validate_cluster(cluster(raw), FeatureGates.parse(f"{gate}=false"))
    assert isinstance(problem, Problem)
    assert gate in problem.message
