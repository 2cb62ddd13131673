"""What environment and feature gates decide for the kinds."""

from __future__ import annotations

import pytest

from controller.command.kinds import KindSettings
from controller.ray.api import FeatureGates


@pytest.mark.parametrize("chosen", [(), ("enableMIG",), ("enableAccelerator",)])
def test_kaitos_gates_allow_parts_of_gpus(chosen: tuple[str, ...]):
    gates = FeatureGates(dict.fromkeys(("Workspace", *chosen), True))
    settings = KindSettings.from_environment(gates, {})
    assert settings.workspace is not None
    assert settings.inference_set is not None
    for options in (settings.workspace.options, settings.inference_set.options):
        assert options.mig is ("enableMIG" in chosen)
        assert options.accelerators is ("enableAccelerator" in chosen)


def test_gates_of_workspaces_load_nothing_while_these_are_off():
    gates = FeatureGates(dict.fromkeys(("enableMIG", "enableAccelerator"), True))
    assert KindSettings.from_environment(gates, {}).workspace is None
