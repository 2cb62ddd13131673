"""Error messages with remedies, for when the environment with Ray cannot be created."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from controller.command.development.rayenv.environment import python_version

if TYPE_CHECKING:
    from controller.command.development.rayenv.environment import RayEnvironment
    from controller.command.development.rayenv.installer import InstallerFailed

_OWN = "or give an environment that you have: --image rayproject/ray=PATH"
_UNREACHABLE = (
    "Failed to establish a new connection",
    "Max retries exceeded",
    "Connection refused",
    "connection broken by",
    "Read timed out",
    "Temporary failure in name resolution",
    "ProxyError",
    "SSLError",
)
_LINES_SHOWN = 6


def remedy(failure: InstallerFailed, environment: RayEnvironment) -> str:
    """Return one sentence with the cause and a remedy."""
    output, folder = failure.output, environment.folder
    version = environment.pins["ray"]
    if "No space left on device" in output:
        return (
            f"no space is left for an environment with Ray in {folder.parent}: free about 800 MB, "
            "or set XDG_CACHE_HOME to a folder elsewhere"
        )
    if "ensurepip" in output:
        return (
            "this Python cannot create virtual environments: install the rest of it (Debian and "
            f"Ubuntu: apt install python3-venv), {_OWN}"
        )
    if any(words in output for words in _UNREACHABLE):
        return (
            f"cannot reach the package index to download Ray {version}: check the network, a proxy "
            f"(HTTPS_PROXY) or a mirror (PIP_INDEX_URL), {_OWN}\n{_end_of(output)}"
        )
    if "DO NOT MATCH THE HASHES" in output:
        return (
            "the package index sent something else than what Manta pins; try again, and look at "
            f"the mirror if you use one\n{_end_of(output)}"
        )
    if "No matching distribution found" in output:
        return (
            f"the package index has no Ray {version}, or something that it needs, for Python "
            f"{python_version()} on {platform.system()} {platform.machine()}: run Manta with "
            f"another Python (make PYTHON=python3.13 after make clean), {_OWN}\n{_end_of(output)}"
        )
    return f"cannot create an environment with Ray: {failure.command} failed:\n{_end_of(output)}"


def _end_of(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-_LINES_SHOWN:])
