"""The record in a Lease: who holds it, since when, for how long (LE-2).

Everything here is a pure function of plain data. Records of other programs may lack fields or hold
invalid ones; those count as absent.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import rfc3339_micro
from controller.apimachinery.custom_object import mapping
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", KubeObject)

RELEASED_SECONDS: Final = 1
"""Duration of a lease without a holder (LE-8)."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it was read.

    Attributes:
        body: the whole object, which others may have added to.
    """

    body: dict[str, Any]

    @property
    def record(self) -> Mapping[str, Any]:
        """The fields whose change restarts the observation (LE-5)."""
        return mapping(self.body.get("spec"))

    @property
    def holder(self) -> str:
        """The identity of the holder, empty if there is none."""
        holder = self.record.get("holderIdentity")
        return holder if isinstance(holder, str) else ""

    def duration(self, usual: int) -> int:
        """Return the seconds that the holder requests; `usual` if it gives none."""
        seconds = self.record.get("leaseDurationSeconds")
        return seconds if isinstance(seconds, int) and seconds > 0 else usual

    @property
    def transitions(self) -> int:
        """The number of times that the lease changed hands."""
        count = self.record.get("leaseTransitions")
        return count if isinstance(count, int) else 0

    def held_by(self, identity: str, seconds: int, now: datetime) -> dict[str, Any]:
        """Return the object to write for taking the lease, or for renewing it (LE-7)."""
        renewed = self.holder == identity
        acquired = self.record.get("acquireTime") if renewed else None
        return self._with_record(
            holderIdentity=identity,
            leaseDurationSeconds=seconds,
            acquireTime=acquired or rfc3339_micro(now),
            renewTime=rfc3339_micro(now),
            leaseTransitions=self.transitions + (not renewed),
        )

    def released(self, now: datetime) -> dict[str, Any]:
        """Return the object to write for giving the lease up (LE-8)."""
        return self._with_record(
            holderIdentity="",
            leaseDurationSeconds=RELEASED_SECONDS,
            acquireTime=rfc3339_micro(now),
            renewTime=rfc3339_micro(now),
        )

    def _with_record(self, **fields: Any) -> dict[str, Any]:
        body = deepcopy(self.body)
        body["spec"] = {**self.record, **fields}
        return body


def new_lease(
    namespace: str, name: str, identity: str, seconds: int, now: datetime
) -> dict[str, Any]:
    """Return the object to create when there is none."""
    empty = Lease({"metadata": {"namespace": namespace, "name": name}})
    body = empty.held_by(identity, seconds, now)
    body["spec"]["leaseTransitions"] = 0
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}
