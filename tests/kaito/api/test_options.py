"""The settings of the operator, from its environment."""

from __future__ import annotations

import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.presets.gpus import Cloud
from controller.ray.api import FeatureGates


def test_what_is_not_set_has_kaitos_default():
    assert KaitoOptions.from_environment({}) == KaitoOptions()


def test_kaitos_variables_are_read():
    found = KaitoOptions.from_environment(
        {"CLOUD_PROVIDER": "aws", "NODE_PROVISIONER": "byo", "PRESET_REGISTRY_NAME": "example.com"}
    )
    assert (found.cloud, found.provisioner) == (Cloud.AWS, Provisioner.OWN_NODES)
    assert found.preset_registry == "example.com"


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, "https://huggingface.co"),
        (
            {"HF_ENDPOINT": "https://mirror.example.com:8443/hub"},
            "https://mirror.example.com:8443/hub",
        ),
        ({"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": ""}, "https://huggingface.co"),
        ({"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "https://mirror.example.com"}, ""),
        ({"HF_HUB_OFFLINE": "true"}, ""),
    ],
)
def test_hugging_faces_variables_say_who_is_asked(variables: dict[str, str], address: str):
    assert KaitoOptions.from_environment(variables).hugging_face == address


@pytest.mark.parametrize(
    "address",
    ["http://huggingface.co", "huggingface.co", "https://user:password@example.com", "https://",
     "https://a b", "https://example.com?x=y", "ftp://example.com"],
)  # fmt: skip
def test_an_address_to_which_no_token_may_be_sent_is_refused_and_not_repeated(address: str):
    with pytest.raises(ValueError, match="HF_ENDPOINT must be an address with https") as raised:
        KaitoOptions.from_environment({"HF_ENDPOINT": address})
    assert "password" not in str(raised.value)


def test_an_unknown_value_is_refused_with_those_that_are_known():
    message = "CLOUD_PROVIDER is 'moon', and must be one of azure, aws, arc"
    with pytest.raises(ValueError, match=message):
        KaitoOptions.from_environment({"CLOUD_PROVIDER": "moon"})


def test_nodes_have_the_image_that_the_administrator_chose():
    chosen = KaitoOptions.from_environment({"DEFAULT_NODE_IMAGE_FAMILY": "AzureLinux"})
    assert chosen.node_image_family == "azurelinux"
    message = "DEFAULT_NODE_IMAGE_FAMILY is 'arch', and must be one of azurelinux, ubuntu"
    with pytest.raises(ValueError, match=message):
        KaitoOptions.from_environment({"DEFAULT_NODE_IMAGE_FAMILY": "arch"})


@pytest.mark.parametrize("enabled", [False, True])
def test_workspaces_are_served_with_their_gate_only(enabled: bool):
    gates = FeatureGates({"Workspace": enabled})
    names = {kind.name for kind in kinds_of(KindSettings.from_environment(gates, {}), None)}
    assert ("workspace-controller" in names) is enabled


CLASSES = '[{"name":"ubuntu","default":true,"spec":{"imageFamily":"U"}},{"name":"linux"}]'
POOLS = {"NODE_PROVISIONER": "karpenter"}


def test_node_classes_are_read_and_sorted_and_azures_by_default():
    found = KaitoOptions.from_environment({**POOLS, "KARPENTER_NODE_CLASSES": CLASSES})
    classes = found.node_classes
    assert str(classes.resource) == "aksnodeclasses.karpenter.azure.com"
    assert (classes.kind, classes.version) == ("AKSNodeClass", "v1beta1")
    assert (classes.names, classes.chosen_name({})) == (("linux", "ubuntu"), "ubuntu")
    assert classes.chosen_name({"kaito.sh/node-class-name": "linux"}) == "linux"
    assert classes.body("linux") is None
    body = classes.body("ubuntu")
    assert body is not None
    assert body["spec"] == {"imageFamily": "U"}


def test_node_classes_of_another_provider_are_read():
    found = KaitoOptions.from_environment(
        {
            "KARPENTER_NODE_CLASS_GROUP": "karpenter.k8s.aws",
            "KARPENTER_NODE_CLASS_KIND": "EC2NodeClass",
            "KARPENTER_NODE_CLASS_VERSION": "v1",
            "KARPENTER_NODE_CLASS_RESOURCE_NAME": "ec2nodeclasses",
        }
    ).node_classes
    assert str(found.resource) == "ec2nodeclasses.karpenter.k8s.aws"
    assert (found.resource.api_version, found.resource.kind) == (
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
    )


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("", "KARPENTER_NODE_CLASSES is missing"),
        ("[]", "must mark exactly one entry as default, and marks 0"),
        ('[{"name":', "is no JSON array of NodeClasses"),
        ('"[]"', "is no JSON array of NodeClasses"),
        ('[{"name":"","default":true}]', "entry 0 '': has no name"),
        ('[{"name":"No","default":true}]', "a lowercase RFC 1123 subdomain must consist of"),
        ('[{"name":"a","default":true},{"name":"a"}]', "declares 'a' more than once"),
        ('[{"name":"a"},{"name":"b"}]', "must mark exactly one entry as default, and marks 0"),
        ('[{"name":"a","default":true},{"name":"b","default":true}]', "and marks 2"),
        ('[{"name":"a","default":true,"spec":[]}]', "is no JSON array of NodeClasses"),
    ],
)
def test_node_classes_that_cannot_be_used_are_refused(classes: str, message: str):
    with pytest.raises(ValueError, match=message):
        KaitoOptions.from_environment({**POOLS, "KARPENTER_NODE_CLASSES": classes})
