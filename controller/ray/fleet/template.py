"""The template of a fleet: distinguishes outdated copies, and names new ones.

Names follow from fleet, index and template. However often a copy is created, after lost answers and
restarts, there is one of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from controller.apimachinery.names import ALPHABET, SUFFIX_LENGTH, suffix
from controller.ray.pods.hashes.template_hash import Hash, recreate_digest

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta
    from controller.ray.api.rayclusterfleet import ClusterTemplate

_CHANGEABLE: Final = frozenset({"managedBy", "suspend"})
"""Fields of the cluster, besides those about scaling, that replace no copy."""

_NAME: Final = re.compile(
    rf"(?P<fleet>.+)-(?P<index>0|[1-9][0-9]{{0,2}})-[{ALPHABET}]{{{SUFFIX_LENGTH}}}"
)


def template_hash(template: ClusterTemplate) -> Hash:
    """Hash everything that makes another copy necessary, without what may change in place."""
    spec = {key: value for key, value in template.spec.items() if key not in _CHANGEABLE}
    metadata, of_spec = msgspec.to_builtins(template.metadata), recreate_digest(spec)
    return Hash(lambda algorithm: {"metadata": metadata, "spec": of_spec.by(algorithm)})


def copy_name(fleet: ObjectMeta, index: int, wanted_hash: Hash) -> str:
    """Return the name of the copy with this index; a namesake of the fleet has other names.

    Names stay those of the algorithm before: a copy whose creation an earlier version of the
    operator has begun is not created twice.
    """
    return f"{fleet.name}-{index}-{suffix(fleet.uid, wanted_hash.former)}"


def index_of(fleet: ObjectMeta, cluster: str) -> int | None:
    """Return the index in the name of a fleet's RayCluster; None if it has no such name."""
    found = _NAME.fullmatch(cluster)
    return int(found["index"]) if found and found["fleet"] == fleet.name else None
