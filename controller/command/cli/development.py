"""The packages and programs that `manta dev` and `manta demo` need."""

from __future__ import annotations

import importlib.util
from typing import Final

from controller.kube.errors import ConfigurationError

FULL_PACKAGE: Final = (
    "Needs the full package (pip install in a checkout); the production image does not hold it."
)


def require_development(command: str) -> None:
    """Refuse a command that this installation does not hold.

    Raises:
        ConfigurationError: the embedded cluster was left out, as in the production image.
    """
    needed = ("controller.devcluster", "controller.command.development")
    missing = [package for package in needed if not importlib.util.find_spec(package)]
    if missing:
        raise ConfigurationError(
            f"`manta {command}` needs the full package, and this installation leaves "
            f"{missing[0]} out, as the production image does. Install Manta from a checkout: "
            "pip install '.[cli]'"
        )
