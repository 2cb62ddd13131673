"""The init container that keeps a worker from starting before the head answers."""

from __future__ import annotations

import copy
from typing import Any, Final

from controller.ray.cluster.authentication import WAIT_CONTAINER

Body = dict[str, Any]

_WAIT_SCRIPT: Final = """\
until if ((SECONDS < 120)); then ray health-check --address {address} > /dev/null 2>&1; \
else ray health-check --address {address}; fi; do
  echo "$SECONDS seconds: the GCS at {address} does not answer yet."
  sleep 5
done
echo "The GCS at {address} is ready."
"""


def wait_for_head(ray: Body, address: str) -> Body:
    """The container for a pod whose Ray container, as the user wrote it, is `ray`."""
    container: Body = {
        "name": WAIT_CONTAINER,
        "image": ray.get("image", ""),
        "command": ["/bin/bash", "-c", "--"],
        "args": [_WAIT_SCRIPT.format(address=address)],
        "resources": {
            "requests": {"cpu": "200m", "memory": "256Mi"},
            "limits": {"cpu": "200m", "memory": "256Mi"},
        },
    }
    for key in ("imagePullPolicy", "securityContext", "env", "volumeMounts"):
        if key in ray:
            container[key] = copy.deepcopy(ray[key])
    return container
