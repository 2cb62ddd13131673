"""The settings of the operator, from its environment."""

from __future__ import annotations

import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.presets import Cloud
from controller.ray.api import FeatureGates


def test_what_is_not_set_has_kaitos_default():
    assert KaitoOptions.from_environment({}) == KaitoOptions()


def test_kaitos_variables_are_read():
    found = KaitoOptions.from_environment(
        {"CLOUD_PROVIDER": "aws", "NODE_PROVISIONER": "byo", "PRESET_REGISTRY_NAME": "example.com"}
    )
    assert (found.cloud, found.provisioner) == (Cloud.AWS, Provisioner.OWN_NODES)
    assert found.preset_registry == "example.com"


def test_an_unknown_value_is_refused_with_those_that_are_known():
    message = "CLOUD_PROVIDER is 'moon', and must be one of azure, aws, arc"
    with pytest.raises(ValueError, match=message):
        KaitoOptions.from_environment({"CLOUD_PROVIDER": "moon"})


@pytest.mark.parametrize("enabled", [False, True])
def test_workspaces_are_served_with_their_gate_only(enabled: bool):
    gates = FeatureGates({"Workspace": enabled})
    names = {kind.name for kind in kinds_of(KindSettings.from_environment(gates, {}), None)}
    assert ("workspace-controller" in names) is enabled
