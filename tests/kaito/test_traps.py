"""Traps into which Kaito's controller falls, and Manta does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.config_maps import OPTIONS_MAPS
from controller.kaito.api.karpenter import NODES
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.validation import validate_workspace
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kaito.workspace.watches import JOBS, PODS, REVISIONS
from controller.kube.resources import SECRETS, SERVICES, STATEFUL_SETS, Resource
from tests.kaito.permissions import PERMISSIONS
from tests.kaito.support import inference, tuning, workspace
from tests.kaito.workspace.given import Given, node

ROOT = Path(__file__).parents[2]
MODES = [KaitoOptions(provisioner=each) for each in Provisioner]
OWN_NODES = KaitoOptions(provisioner=Provisioner.OWN_NODES)


SECRETS_OF_IMAGES = {"image": "example.com/a:1", "imagePullSecrets": ["pull"]}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.b", {"image": "example.com/a:1"}),
        ("a" * 57, {"image": "example.com/a:1"}),
        ("a" * 32, SECRETS_OF_IMAGES),
        ("a" * 49, {"volumeSource": {"emptyDir": {}}}),
    ],
)
def test_adapters_with_which_no_pod_can_be_created_are_refused(name: str, source: dict[str, Any]):
    def judged(name: str) -> Any:
        adapter = {"source": {"name": name, **source}}
        found = workspace(inference=inference(adapters=[adapter]))
        return validate_workspace(found, KaitoOptions())

    problem = judged(name)
    assert isinstance(problem, Problem)
    assert f"{name} leads to a part of the pod with the name " in problem.message
    assert not isinstance(judged(name.replace(".", "")[:-1]), Problem)


@pytest.mark.parametrize("name", ["a" * 37, "My data"])
def test_data_with_which_no_pod_can_be_created_are_refused(name: str):
    def judged(name: str, source: dict[str, Any]) -> Any:
        found = workspace(tuning=tuning(input={"name": name, **source}))
        return validate_workspace(found, KaitoOptions())

    problem = judged(name, SECRETS_OF_IMAGES)
    assert isinstance(problem, Problem)
    assert problem.field == "tuning.Input.Name"
    assert not isinstance(judged("a" * 36, SECRETS_OF_IMAGES), Problem)
    assert not isinstance(judged(name, {"urls": ["https://example.com/d"]}), Problem)


def test_expressions_select_no_nodes():
    expressions = [{"key": "apps", "operator": "In", "values": ["other"]}]
    given = own(labelSelector={"matchLabels": {"zone": "a"}, "matchExpressions": expressions})
    given.reads.add(NODES, node("n1", zone="a"), node("n2", zone="b"))
    assert [each.name for each in given.observe().nodes] == ["n1"]


def test_without_labels_all_nodes_are_ones_own():
    given = own(labelSelector={})
    given.reads.add(NODES, node("n1", zone="a"), node("n2", apps="x"))
    assert [each.name for each in given.observe().nodes] == ["n1", "n2"]


def own(**resource: Any) -> Given:
    """A Workspace on nodes that are there already."""
    return Given(workspace(resource={"instanceType": None, **resource}), OWN_NODES)


def test_what_has_no_labels_is_watched_whole_and_all_else_is_selected():
    for settings in MODES:
        selectors = {each.resource: each.label_selector for each in WorkspaceKind(settings).owned}
        assert [selectors[each] for each in (SERVICES, STATEFUL_SETS)] == ["", ""]
        assert [selectors[each] for each in (JOBS, PODS)] == [labels.WORKSPACE, labels.WORKSPACE]
        assert selectors[REVISIONS] == labels.REVISION_OF


def test_no_write_depends_on_a_webhook_of_the_operator():
    chart = ROOT / "charts" / "manta-operator"
    text = "\n".join(path.read_text() for path in chart.rglob("*.yaml"))
    assert "MutatingWebhookConfiguration" not in text
    (validating,) = chart.rglob("webhook.yaml")
    own = 'expression: request.userInfo.username != "system:serviceaccount:'
    assert validating.read_text().count(own) == text.count("admissionReviewVersions") == 1
    assert not {each for each in PERMISSIONS if "webhook" in each}


def test_no_secret_is_watched_and_of_config_maps_and_nodes_little_is_kept():
    for settings in MODES:
        watched = {plain(each.resource): each.resource for each in WorkspaceKind(settings).owned}
        assert plain(SECRETS) not in watched
        assert watched[plain(OPTIONS_MAPS)] is OPTIONS_MAPS
        assert watched[plain(NODES)] is NODES
    kept = OPTIONS_MAPS.view.__struct_fields__, NODES.view.__struct_fields__
    assert kept == (("metadata", "data"), ("metadata", "status"))


def plain(resource: Resource[Any]) -> str:
    return str(replace(resource, part=""))
