"""Adds the init container in which a worker waits until the GCS answers."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.ray.pods.features.authentication import WAIT_CONTAINER

if TYPE_CHECKING:
    from controller.ray.pods.draft import PodDraft

Body = dict[str, Any]

_WAIT_SCRIPT: Final = """\
until if ((SECONDS < 120)); then ray health-check --address {address} > /dev/null 2>&1; \
else ray health-check --address {address}; fi; do
  echo "$SECONDS seconds: the GCS at {address} does not answer yet."
  sleep 5
done
echo "The GCS at {address} is ready."
"""


def add_wait_gcs_ready(draft: PodDraft, address: str) -> None:
    """Make a pod wait for the GCS at `host:port`, unless the user has defined the container.

    A container of that name without an image has what the user changes of ours, such as resources.
    Call it before other features change the Ray container, from which it copies fields.
    """
    containers: list[Body] = draft.spec.setdefault("initContainers", [])
    for container in containers:
        if container.get("name") == WAIT_CONTAINER:
            if not container.get("image"):
                container.update(_wait_for_head(draft.ray, address) | container)
            return
    containers.append(_wait_for_head(draft.ray, address))


def _wait_for_head(ray: Body, address: str) -> Body:
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
