"""The help of `--feature-gates`."""

from __future__ import annotations

from controller.ray.api.feature_gates import GATES


def gates_help() -> str:
    """Describe all gates with their defaults, and those without effect."""
    real = [
        f"{name} ({'on' if gate.default else 'off'})"
        for name, gate in GATES.items()
        if gate.fixed is None
    ]
    missing = [name for name, gate in GATES.items() if gate.fixed is False]
    return (
        f"switch features on or off by KubeRay's names, with their defaults: {', '.join(real)}. "
        f"Gates without effect, because the feature does not exist yet: {', '.join(missing)}; "
        "objects that need one of these for their protection are refused"
    )
