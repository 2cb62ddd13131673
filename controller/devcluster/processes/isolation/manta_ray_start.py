"""Called by `ray start` in pods that share this machine's network (RAY_START_HOOK).

Ray passes its parameters before it starts. The node gets the pod's address; nodes other
than the head get their own ports where the address alone does not separate them.
"""

from __future__ import annotations

import os
from typing import Any

_MOVED = ("metrics_export_port", "dashboard_agent_listen_port")


def hook(parameters: Any, head: bool) -> None:
    """Change the parameters of `ray start`.

    Args:
        parameters: Ray's own object with all its settings.
        head: whether this is the head node.
    """
    parameters.node_ip_address = os.environ["MANTA_POD_IP"]
    if head:
        return
    parameters.temp_dir = os.environ.get("RAY_TMPDIR") or parameters.temp_dir
    for name in _MOVED:
        port = getattr(parameters, name)
        if port:
            setattr(parameters, name, port + int(os.environ["MANTA_POD_NUMBER"]))
