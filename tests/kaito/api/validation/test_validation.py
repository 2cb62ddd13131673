"""What is wrong with a Workspace, in Kaito's words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.apimachinery.validation import Problem
from controller.kaito.api.inferenceset import validate_inference_set
from controller.kaito.api.karpenter import ConfiguredNodeClass, NodeClassSettings
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.validation import validate_workspace
from controller.kaito.api.workspace import Workspace, WorkspaceSpec
from controller.kaito.presets.gpus import Cloud
from tests.kaito.support import inference, inference_set, tuning, workspace

DEFAULT = KaitoOptions()
NO_VLLM = KaitoOptions(vllm=False)
OWN = KaitoOptions(provisioner=Provisioner.OWN_NODES)
ALL_GATES = KaitoOptions(provisioner=Provisioner.OWN_NODES, mig=True, accelerators=True)
NODE_POOLS = KaitoOptions(
    provisioner=Provisioner.NODE_POOLS,
    node_classes=NodeClassSettings(
        classes=(ConfiguredNodeClass("image-family-ubuntu"), ConfiguredNodeClass("other"))
    ),
)


def ten_adapters(count: int) -> list[dict[str, Any]]:
    return [{"source": {"name": f"a{index}", "image": "a/b"}} for index in range(count)]


def noted(key: str, value: str) -> Workspace:
    return workspace(annotations={f"kaito.sh/{key}": value})


def served(**more: Any) -> Workspace:
    return workspace(inference=more)


def asked(**resource: Any) -> Workspace:
    return workspace(resource=resource)


def own(**resource: Any) -> Workspace:
    return workspace(resource={"instanceType": None, **resource})


def labelled(*expressions: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels, "matchExpressions": list(expressions)}}


RIGHT: list[tuple[Workspace, KaitoOptions]] = [
    (workspace(), DEFAULT),
    (workspace(tuning=tuning()), DEFAULT),
    (served(template={"spec": {"containers": [{"name": "a", "image": "b"}]}}), DEFAULT),
    (workspace(inference=inference("someone/some-model")), DEFAULT),
    (workspace(inference=inference("phi-4", adapters=ten_adapters(10))), DEFAULT),
    (asked(instanceType="standard_NC24ads_a100_v4"), DEFAULT),
    (asked(instanceType="Standard_NV999_new"), DEFAULT),
    (asked(instanceType="g5.xlarge"), KaitoOptions(cloud=Cloud.AWS)),
    (own(), OWN),
    (own(partition={"mode": "mig", "profile": "2g.20gb"}), ALL_GATES),
    (own(partition={"mode": "accelerator", "count": 2}), ALL_GATES),
    (asked(**labelled({"key": "a", "operator": "In", "values": ["b"]})), DEFAULT),
    (noted("node-image-family", " AzureLinux"), DEFAULT),
    (noted("performance-mode", "throughput"), DEFAULT),
    (noted("node-class-name", "whatever"), DEFAULT),
    (noted("node-class-name", "other"), NODE_POOLS),
    (noted("use-local-weights", "true"), DEFAULT),
    (workspace(name="a" * 54), DEFAULT),
    (workspace(name="7", tuning=tuning()), DEFAULT),
]

WRONG: list[tuple[Workspace, KaitoOptions, str]] = [
    (
        workspace(inference=None),
        DEFAULT,
        "Either Inference or Tuning must be specified, not neither: spec",
    ),
    (
        workspace(inference=inference(), tuning=tuning()),
        DEFAULT,
        "Either Inference or Tuning must be specified, but not both: spec",
    ),
    (
        workspace(name="A"),
        DEFAULT,
        "invalid value: a lowercase RFC 1123 label must consist of lower case alphanumeric",
    ),
    (
        asked(instanceType=None),
        DEFAULT,
        (
            "missing field(s): spec.instanceType is required when node auto-provisioning is "
            "enabled, spec.resource.instanceType"
        ),
    ),
    (
        workspace(),
        OWN,
        (
            "invalid value: instanceType must be empty when node auto-provisioning is disabled "
            "(BYO scenario): spec.resource.instanceType"
        ),
    ),
    (
        asked(instanceType="Standard_B2s"),
        DEFAULT,
        (
            "invalid value: Unsupported instance type Standard_B2s. Supported SKUs: "
            "[Standard_NC24ads_A100_v4 Standard_NC40ads_H100_v5 "
        ),
    ),
    (
        noted("node-image-family", "windows"),
        DEFAULT,
        (
            'invalid value: unsupported node image family "windows", supported values are '
            'azurelinux, ubuntu: spec.metadata.annotations["kaito.sh/node-image-family"]'
        ),
    ),
    (
        noted("performance-mode", "fast"),
        DEFAULT,
        (
            'invalid value: "fast" is not a valid performance mode; choose one of: balanced, '
            "interactivity, throughput: metadata.annotations[kaito.sh/performance-mode]"
        ),
    ),
    (
        noted("use-local-weights", "yes"),
        DEFAULT,
        (
            'invalid value: "yes" must be "true" or "false": '
            "metadata.annotations[kaito.sh/use-local-weights]"
        ),
    ),
    (
        noted("node-class-name", "mine"),
        NODE_POOLS,
        (
            'invalid value: "mine" is not a KAITO-managed NodeClass, supported values are '
            '[image-family-ubuntu other]: metadata.annotations["kaito.sh/node-class-name"]'
        ),
    ),
    (
        workspace(inference=inference("falcon-7b")),
        DEFAULT,
        "invalid value: Unsupported inference preset name falcon-7b: inference.presetName",
    ),
    (
        workspace(inference=inference("Phi-2")),
        DEFAULT,
        (
            "Model phi-2 is deprecated and no longer supported: resource.presetName\n"
            "invalid value: Unsupported inference preset name Phi-2: inference.presetName"
        ),
    ),
    (served(config="c"), DEFAULT, "missing field(s): inference.Preset or Template must be"),
    (
        served(preset={"name": "phi-4"}, template={}),
        DEFAULT,
        "Preset and Template cannot be set at the same time: ",
    ),
    (
        workspace(inference=inference("phi-4", adapters=ten_adapters(11))),
        DEFAULT,
        "Number of Adapters exceeds the maximum limit, maximum of 10 allowed: ",
    ),
    (
        workspace(inference=inference("phi-4", adapters=ten_adapters(1) * 2)),
        DEFAULT,
        "Duplicate adapter source name found: a0: ",
    ),
    (
        workspace(inference=inference("phi-4", adapters=[{"strength": "0.5"}])),
        DEFAULT,
        "Runtime validation: vLLM does not support adapter strength: ",
    ),
    (
        noted("runtime", "transformers"),
        DEFAULT,
        (
            "Runtime validation: model phi-4-mini-instruct does not support inference with "
            "Huggingface Transformers runtime: "
        ),
    ),
    (
        asked(**labelled(**{"kaito.sh/workspace": "other"})),
        DEFAULT,
        (
            "invalid value: matchLabels must contain at least one non-reserved label: "
            "resource.labelSelector.matchLabels"
        ),
    ),
    (
        asked(**labelled({"key": "a", "operator": "In", "values": ["b", "c"]})),
        DEFAULT,
        (
            'invalid value: operator "In" without a single value cannot be converted into the old '
            "label selector format: resource.labelSelector"
        ),
    ),
    (
        asked(**labelled({"key": "a", "operator": "Exists"})),
        DEFAULT,
        'invalid value: operator "Exists" cannot be converted into the old label selector format',
    ),
    (
        asked(**labelled({"key": "a", "operator": "Near"})),
        DEFAULT,
        'invalid value: "Near" is not a valid selector operator: resource.labelSelector',
    ),
    (
        asked(partition={"mode": "mig", "profile": "1g.10gb"}),
        DEFAULT,
        (
            "GPU partitioning is only supported with BYO nodes (disableNodeAutoProvisioning=true): "
            "resource.partition"
        ),
    ),
    (
        own(partition={"mode": "mig", "profile": "1g.10gb"}),
        OWN,
        "MIG support is not enabled, set feature gate enableMIG=true: resource.partition",
    ),
    (
        own(partition={"mode": "accelerator", "count": 1}),
        OWN,
        "accelerator partition support is not enabled, set feature gate enableAccelerator=true",
    ),
    (
        own(partition={"mode": "mig", "profile": "1g.10gb", "count": 1}),
        ALL_GATES,
        "invalid value: count is only valid for accelerator mode: resource.partition.count",
    ),
    (
        own(partition={"mode": "mig", "profile": "9g.1gb"}),
        ALL_GATES,
        'invalid value: unknown MIG profile "9g.1gb": must be one of [1g.10gb ',
    ),
    (
        own(partition={"mode": "accelerator", "profile": "x"}),
        ALL_GATES,
        (
            "invalid value: profile is not valid for accelerator mode: resource.partition.profile\n"
            "missing field(s): resource.partition.count"
        ),
    ),
    (
        own(partition={"mode": "half"}),
        ALL_GATES,
        (
            'invalid value: unsupported partition mode "half", supported modes are "mig" and '
            '"accelerator": resource.partition.mode'
        ),
    ),
    (workspace(tuning=tuning(method="full")), DEFAULT, "invalid value: full: tuning.Method"),
    (
        workspace(tuning=tuning(preset={"name": "gpt-oss-20b"})),
        DEFAULT,
        "invalid value: gpt-oss-20b cannot be tuned; the models that can are mistral-7b-v0.3, ",
    ),
    (
        workspace(tuning=tuning(preset={"name": "x"})),
        DEFAULT,
        "invalid value: Unsupported tuning preset name x: tuning.presetName",
    ),
    (
        workspace(tuning={}),
        DEFAULT,
        (
            'invalid value: "": tuning.Method\nmust be lora or qlora\n'
            "missing field(s): tuning.Input, tuning.Output, tuning.Preset"
        ),
    ),
    (
        workspace(tuning=tuning(), resource={"count": 2}),
        DEFAULT,
        (
            "invalid value: Tuning does not currently support multinode configurations. Please set "
            "the node count to 1. Future support with DeepSpeed will allow this.: resource.count"
        ),
    ),
    (
        workspace(tuning=tuning(input={})),
        DEFAULT,
        (
            "Exactly one of URLs, Volume, or Image must be specified: tuning.Input.Image, "
            "tuning.Input.URLs, tuning.Input.Volume"
        ),
    ),
    (
        workspace(tuning=tuning(output={"image": "a/b"})),
        DEFAULT,
        "missing field(s): tuning.Output.Must specify imagePushSecret with destination image",
    ),
    (
        workspace(tuning=tuning(output={"image": "A B", "imagePushSecret": "s"})),
        DEFAULT,
        "invalid value: Unable to parse output image reference: invalid reference format",
    ),
    (workspace(name="a" * 55), DEFAULT, "must begin with a letter and have at most 54 characters"),
    (
        workspace(inference=inference(adapters=[{"source": {"name": "A", "urls": ["http://x"]}}])),
        DEFAULT,
        (
            "Either Image or Volume must be specified for adapter source: "
            "inference.adapters.source\n"
            "URLs are not supported as adapter source: inference.adapters.source.urls\n"
            "invalid value: a lowercase RFC 1123 subdomain must consist"
        ),
    ),
    (workspace(inference=inference(adapters=[{}])), DEFAULT, "missing field(s): inference.Source"),
    (
        workspace(inference=inference(adapters=[{"source": {"image": "b"}}])),
        DEFAULT,
        "missing field(s): inference.Name of Adapter field must be specified",
    ),
    (
        workspace(
            inference=inference(
                "phi-4",
                adapters=[
                    {"source": {"name": "a", "image": "b"}, "strength": "much"},
                    {"source": {"name": "b", "image": "b"}, "strength": "1.5"},
                    {"source": {"name": "c", "image": "b"}, "strength": "1"},
                ],
            )
        ),
        NO_VLLM,
        (
            "Invalid strength value for Adapter 'a': strconv.ParseFloat: parsing \"much\": invalid "
            "syntax: inference.adapter\n"
            "Strength value for Adapter 'b' must be between 0 and 1: inference.adapter"
        ),
    ),
    (asked(count=-1), DEFAULT, "invalid value: -1: resource.count\nmust be non-negative"),
    (workspace(name="7b"), DEFAULT, "must begin with a letter and have at most 54 characters"),
]


@pytest.mark.parametrize(("given", "options"), RIGHT)
def test_what_is_right_passes(given: Workspace, options: KaitoOptions):
    assert isinstance(validate_workspace(given, options), WorkspaceSpec)


@pytest.mark.parametrize(("given", "options", "words"), WRONG, ids=[row[2][:60] for row in WRONG])
def test_what_is_wrong_is_said_in_kaitos_words(given: Workspace, options: KaitoOptions, words: str):
    problem = validate_workspace(given, options)
    assert isinstance(problem, Problem)
    assert problem.reason == "InvalidWorkspaceSpec"
    assert problem.message.startswith(words), problem.message


@pytest.mark.parametrize(
    ("part", "value", "field"),
    [
        ("resource", "text", "resource"),
        ("resource", {"count": "x"}, "resource.count"),
        ("inference", [], "inference"),
        ("inference", {"preset": {"name": 1}}, "inference.preset.name"),
        (
            "inference",
            {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}},
            "inference.template",
        ),
    ],
)
def test_a_specification_of_any_shape_is_a_problem_and_not_an_exception(
    part: str, value: Any, field: str
):
    raw = {"metadata": {"name": "a"}, "resource": {"instanceType": "Standard_N"}, part: value}
    problem = validate_workspace(msgspec.convert(raw, Workspace), DEFAULT)
    assert isinstance(problem, Problem)
    assert problem.field == field


@pytest.mark.parametrize(
    ("name", "changes", "options", "words"),
    [
        ("models", {}, DEFAULT, ""),
        ("models", {"template": {"inference": inference()}}, OWN, ""),
        ("Models", {}, DEFAULT, "invalid value: a lowercase RFC 1123 label"),
        ("models", {"replicas": -1}, DEFAULT, "invalid value: -1: spec.replicas\nmust be non-"),
        (
            "models",
            {"template": {"inference": inference()}},
            DEFAULT,
            "missing field(s): spec.template.resource.instanceType",
        ),
        (
            "models",
            {},
            OWN,
            (
                "invalid value: Standard_NC24ads_A100_v4: spec.template.resource.instanceType\n"
                "instanceType must be empty when nodeProvisioner is byo"
            ),
        ),
        ("m" * 49, {}, DEFAULT, "has 49 characters; at most 48 leave room"),
        (
            "models",
            {"template": {"resource": {"instanceType": "Standard_NX"}, "inference": {}}},
            DEFAULT,
            "missing field(s): inference.Preset or Template must be specified",
        ),
    ],
)
def test_an_inference_set_and_its_workspaces_are_validated(
    name: str, changes: dict[str, Any], options: KaitoOptions, words: str
):
    found = validate_inference_set(inference_set(name, **changes), options)
    message = found.message if isinstance(found, Problem) else ""
    assert message.startswith(words)
    assert bool(message) is bool(words)
