"""What commands say of options: help of `--feature-gates`, and the option that a setting has."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from controller.ray.api.feature_gates import GATES

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_option(error: ValueError, options: Mapping[str, str]) -> str:
    """Return the text of an error, with the option in place of the setting that it begins with.

    Args:
        error: error raised by `controller.runtime.settings.Settings`.
        options: options by the settings that they set.
    """
    text = str(error)
    setting = text[: len(text) - len(text.lstrip(f"{ascii_lowercase}_"))]
    return options.get(setting, setting) + text.removeprefix(setting)


# The help of `--feature-gates`.


def gates_help() -> str:
    """Describe all gates with their defaults, but for those without effect."""
    real = [
        f"{name} ({'on' if gate.default else 'off'})"
        for name, gate in GATES.items()
        if gate.fixed is None
    ]
    return f"switch features on or off by KubeRay's names, with their defaults: {', '.join(real)}"
