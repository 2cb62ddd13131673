"""The committed size of a Workspace's NodePool: stored before the pool is created.

It is an annotation, so that it survives the operator and fits Kaito's definitions too.
"""

from __future__ import annotations

import msgspec

from controller.kaito.provisioning.commitment import MOST_NODES


class PoolCommitment(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The size; defaults are left out of the annotation.

    Attributes:
        target: number of nodes that the workload needs.
        template: the machine and the labels; another one leads to another pool.
        replicas: number of nodes of the pool. It only grows.
        nodes: names of nodes that were there before.
        claims: names of claims that were there before, made without a pool.
    """

    target: int
    template: str = ""
    replicas: int = 0
    nodes: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    @property
    def covered(self) -> int:
        """The number of nodes that the pool need not have."""
        return len(self.nodes) + len(self.claims)


def read_pool_commitment(text: str | None) -> PoolCommitment | None:
    """Return the size in an annotation; None if there is none or it is implausible."""
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=PoolCommitment)
    except (msgspec.DecodeError, ValueError):
        return None
    return found if 0 <= found.replicas <= found.target <= MOST_NODES else None


def write_pool_commitment(commitment: PoolCommitment) -> str:
    """Return the text of the annotation."""
    return msgspec.json.encode(commitment).decode()
