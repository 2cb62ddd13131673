"""Names for the pods that a cluster lacks: idempotency keys that never come back (DESIGN 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.cluster.identity import HEAD_SCOPE, worker_scope
from controller.ray.cluster.scale import missing
from controller.runtime.names import child_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.kube.objects import Pod
    from controller.ray.cluster.observe import Design
    from controller.runtime.kind import Reads


def free_names(
    design: Design,
    heads: Sequence[Pod],
    workers: Mapping[str, Sequence[Pod]],
    reads: Reads,
    batch: int,
) -> dict[str, tuple[str, ...]]:
    """Names for missing pods by scope, as many as one plan may create."""
    identity = design.identity
    revision = reads.revision(PODS, identity.uid)

    def choose(prefix: str, group: str, count: int) -> tuple[str, ...]:
        names: list[str] = []
        position = 0
        while len(names) < count:
            name = child_name(
                prefix,
                owner_uid=identity.uid,
                group=group,
                position=position,
                revision=revision,
            )
            position += 1
            key = f"{identity.namespace}/{name}"
            if not reads.is_taken(PODS, key) and reads.get(PODS, key) is None:
                names.append(name)
        return tuple(names)

    cluster = identity.name
    names: dict[str, tuple[str, ...]] = {}
    if not heads:
        names[HEAD_SCOPE] = choose(f"{cluster}-head", labels.HEAD_GROUP, 1)
    for group in design.spec.worker_group_specs:
        count = min(batch, missing(group, workers.get(group.group_name, ())))
        if count:
            prefix = f"{cluster}-{group.group_name}-worker".lower()
            names[worker_scope(group.group_name)] = choose(prefix, group.group_name, count)
    return names
