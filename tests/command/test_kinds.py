"""What environment and feature gates decide for the kinds, and for those of somebody else."""

from __future__ import annotations

import pytest

from controller.command.cli.run import run_kinds
from controller.command.kinds import KindSettings, kinds_of
from controller.kaito.api.options import KaitoOptions, Runtime
from controller.ray.api import FeatureGates
from examples.kinds.widget.widget import WidgetKind


@pytest.mark.parametrize("chosen", [(), ("enableMIG",), ("enableAccelerator",)])
def test_kaitos_gates_allow_parts_of_gpus(chosen: tuple[str, ...]):
    gates = FeatureGates(dict.fromkeys(("Workspace", *chosen), True))
    settings = KindSettings.from_environment(gates, {})
    assert settings.kaito is not None
    assert settings.kaito.mig is ("enableMIG" in chosen)
    assert settings.kaito.accelerators is ("enableAccelerator" in chosen)


def test_gates_of_workspaces_load_nothing_while_these_are_off():
    gates = FeatureGates(dict.fromkeys(("enableMIG", "enableAccelerator"), True))
    assert KindSettings.from_environment(gates, {}).kaito is None


def options_of(gates: dict[str, bool], environment: dict[str, str] | None = None) -> KaitoOptions:
    found = KindSettings.from_environment(
        FeatureGates({"Workspace": True, **gates}), environment or {}
    )
    assert found.kaito is not None
    return found.kaito


def test_kaitos_gates_choose_server_nodes_and_upgrades():
    usual = options_of({})
    assert (usual.vllm, usual.auto_upgrade, usual.has_own_nodes) == (True, True, False)
    assert options_of({"vLLM": False}).runtime({}) is Runtime.TRANSFORMERS
    assert not options_of({"enableBaseImageAutoUpgrade": False}).auto_upgrade
    own = {"disableNodeAutoProvisioning": True}
    assert options_of(own).has_own_nodes
    assert options_of(own, {"NODE_PROVISIONER": "byo"}).has_own_nodes


def test_a_gate_that_contradicts_the_provisioner_is_refused():
    message = (
        "the feature gate disableNodeAutoProvisioning is on, and NODE_PROVISIONER is 'karpenter'"
    )
    with pytest.raises(ValueError, match=message):
        options_of({"disableNodeAutoProvisioning": True}, {"NODE_PROVISIONER": "karpenter"})


def test_inference_sets_have_a_gate_of_their_own():
    for gates, served in (({}, True), ({"enableInferenceSetController": False}, False)):
        settings = KindSettings.from_environment(FeatureGates({"Workspace": True, **gates}), {})
        kinds = {kind.primary.kind for kind in kinds_of(settings, None)}
        assert "Workspace" in kinds
        assert ("InferenceSet" in kinds) is served


@pytest.mark.parametrize(
    "gate", ["ModelMirror", "ModelStreaming", "enableMultiRoleInferenceController"]
)
def test_gates_of_what_manta_does_not_have_are_accepted_and_reported(gate: str):
    found = FeatureGates.parse(f"{gate}=true").without_effect()
    assert found == {gate: "Manta does not have the feature"}
    assert FeatureGates.parse(f"{gate}=false").without_effect() == {}


def test_a_wrong_setting_or_file_is_named_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
):
    assert run_kinds([WidgetKind()], ["--workers=0"]) == 2
    assert run_kinds([WidgetKind()], ["--kubeconfig=/nowhere/at/all"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "workers must be at least 1" in first
    assert "/nowhere/at/all" in second


def test_its_help_names_the_kinds_and_no_option_of_ray(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        run_kinds([WidgetKind()], ["--help"])
    text = capsys.readouterr().out
    assert "Run widget-controller." in text
    assert "--leader-election-namespace" in text
    assert "proxy" not in text
