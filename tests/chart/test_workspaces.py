"""Workspaces in the chart: nothing of them but with their feature gate."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controller.command.kinds import KindSettings
from controller.command.manager import kind_settings_of, read_options
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.options import KaitoOptions, Provisioner
from tests.chart.helm import CHART, helm, needs_helm, only, rendered
from tests.kaito.workspace.test_permissions import NODE_CLASS_RULE

pytestmark = [pytest.mark.slow, needs_helm]

GATE = "featureGates[0].name=Workspace", "featureGates[0].enabled=true"
OFF = "featureGates[0].name=Workspace", "featureGates[0].enabled=false"
RULES = CHART / "workspace-rules.yaml"
NAME = "release-manta-operator-workspaces"


def named(name: str, objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in objects if each["metadata"]["name"] == name}


def test_without_the_gate_the_chart_renders_nothing_of_workspaces():
    values = "workspaces.nodeProvisioner=byo", "workspaces.installDefinition=true"
    usual = rendered(CHART)
    assert rendered(CHART, *values) == usual
    without = [part for part in rendered(CHART, *OFF, *values) if part["kind"] != "Deployment"]
    assert without == [part for part in usual if part["kind"] != "Deployment"]


def test_with_the_gate_the_definitions_come_and_stay():
    objects = rendered(CHART, *GATE)
    definitions = [part for part in objects if part["kind"] == "CustomResourceDefinition"]
    for each in definitions:
        assert each["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    by_name = {each["metadata"]["name"]: each for each in definitions}
    assert by_name == {each["metadata"]["name"]: each for each in kaito_definitions()}
    kinds = [part["kind"] for part in rendered(CHART, *GATE, "workspaces.installDefinition=false")]
    assert "CustomResourceDefinition" not in kinds


@pytest.mark.parametrize("scope", ["singleNamespaceInstall=false", "singleNamespaceInstall=true"])
def test_with_the_gate_the_rights_come_and_those_to_nodes_are_a_cluster_role(scope: str):
    rules = yaml.safe_load(RULES.read_text())
    objects = rendered(CHART, *GATE, scope)
    found = named(NAME, objects)
    assert found["ClusterRole"]["rules"] == rules["cluster"]
    (subject,) = found["ClusterRoleBinding"]["subjects"]
    pod = only("Deployment", objects)["spec"]["template"]["spec"]
    assert subject["name"] == pod["serviceAccountName"]
    usual = named("release-manta-operator", objects)
    role = usual["ClusterRole" if scope.endswith("false") else "Role"]
    more = len(rules["namespaced"])
    assert role["rules"][-more:] == rules["namespaced"]


def test_the_rights_to_inference_pools_come_with_their_gate():
    gate = (
        "featureGates[1].name=gatewayAPIInferenceExtension", "featureGates[1].enabled=true",
    )  # fmt: skip
    (rule,) = yaml.safe_load(RULES.read_text())["inferencePools"]
    for values, granted in (((*GATE, *gate), True), (GATE, False), ((*OFF, *gate), False)):
        role = named("release-manta-operator", rendered(CHART, *values))["ClusterRole"]
        assert (rule in role["rules"]) is granted


def test_no_right_is_granted_where_somebody_else_grants_them():
    kinds = {part["kind"] for part in rendered(CHART, *GATE, "rbacEnable=false")}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


def test_values_reach_the_operator_beside_the_environment():
    values = "workspaces.nodeProvisioner=byo", "workspaces.presetRegistry=r.example/models"
    more = "env[0].name=CLUSTER_DOMAIN", "env[0].value=example.org"
    deployment = only("Deployment", rendered(CHART, *GATE, *values, *more))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment.pop("CLUSTER_DOMAIN") == "example.org"
    gates = kind_settings_of(read_options(container["args"])).ray.feature_gates
    workspaces = KindSettings.from_environment(gates, environment).kaito
    assert workspaces is not None
    assert workspaces.provisioner is Provisioner.OWN_NODES
    assert workspaces.preset_registry == "r.example/models"


def test_with_node_pools_their_rights_and_their_node_classes_come():
    objects = rendered(CHART, *GATE, "workspaces.nodeProvisioner=karpenter")
    rules = yaml.safe_load(RULES.read_text())
    granted = named(NAME, objects)["ClusterRole"]["rules"]
    assert granted == [*rules["cluster"], *rules["nodePools"], NODE_CLASS_RULE]
    (container,) = only("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    options = KaitoOptions.from_environment(
        {each["name"]: each.get("value", "") for each in container["env"]}
    )
    assert options.provisioner is Provisioner.NODE_POOLS
    classes = options.node_classes
    assert (classes.group, classes.plural) == ("karpenter.azure.com", "aksnodeclasses")
    assert classes.names == ("image-family-azure-linux", "image-family-ubuntu")
    assert classes.chosen_name({}) == "image-family-ubuntu"


def test_node_classes_of_another_provider_reach_rights_and_operator():
    classes = '[{"default":true,"name":"gpu"}]'
    objects = rendered(
        CHART, *GATE, "workspaces.nodeProvisioner=karpenter",
        "workspaces.karpenter.group=karpenter.k8s.aws", "workspaces.karpenter.kind=EC2NodeClass",
        "workspaces.karpenter.version=v1", "workspaces.karpenter.resourceName=ec2nodeclasses",
        "workspaces.karpenter.nodeClasses[0].name=gpu",
        "workspaces.karpenter.nodeClasses[0].default=true",
    )  # fmt: skip
    granted = named(NAME, objects)["ClusterRole"]["rules"][-1]
    assert (granted["apiGroups"], granted["resources"]) == (
        ["karpenter.k8s.aws"], ["ec2nodeclasses"],
    )  # fmt: skip
    (container,) = only("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    assert environment["KARPENTER_NODE_CLASSES"] == classes
    found = KaitoOptions.from_environment(environment).node_classes
    assert (found.kind, found.version, found.names) == ("EC2NodeClass", "v1", ("gpu",))


def test_who_is_asked_about_models_reaches_the_operator():
    for values, expected in (
        ((), "https://huggingface.co"),
        (("workspaces.huggingFace.offline=true",), ""),
        (
            ("workspaces.huggingFace.endpoint=https://mirror.example.com",),
            "https://mirror.example.com",
        ),
    ):
        (container,) = only("Deployment", rendered(CHART, *GATE, *values))["spec"]["template"][
            "spec"
        ]["containers"]
        environment = {each["name"]: each.get("value", "") for each in container.get("env", ())}
        assert KaitoOptions.from_environment(environment).hugging_face == expected


def test_a_value_that_the_operator_would_refuse_is_refused():
    done = helm(
        *("template", "release", str(CHART), "--set", "workspaces.nodeProvisioner=gardener"),
        check=False,
    )
    assert done.returncode
