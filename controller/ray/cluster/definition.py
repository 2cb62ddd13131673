"""What the installed definition of RayClusters lacks of what deletions are decided by.

The API server drops what its definition lacks from every object. A definition of another version,
or none that can be read, must not shrink a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from controller.ray.cluster.workers.scale_down import DeletionCause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.runtime.reconcile.kind import InstalledSchema

REMEDY: Final = (
    "Install this operator's definitions (manta crds | kubectl apply -f -) and apply "
    "the manifest again"
)

_GROUPS: Final = "spec.workerGroupSpecs"
_FIELDS: Final[Mapping[str, frozenset[DeletionCause]]] = {
    _GROUPS: frozenset({DeletionCause.GROUP_REMOVED, DeletionCause.SURPLUS, DeletionCause.RESIZED}),
    f"{_GROUPS}.replicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.minReplicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.numOfHosts": frozenset({DeletionCause.RESIZED}),
    "spec.enableInTreeAutoscaling": frozenset({DeletionCause.SURPLUS}),
}
"""The fields whose absence would delete workers, and for which cause."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The installed definition, as far as deletions depend on it.

    Attributes:
        missing: paths of fields that it lacks.
        error: why it could not be read; empty if it was.
    """

    missing: tuple[str, ...] = ()
    error: str = ""
    _undecidable: frozenset[DeletionCause] = field(default=frozenset())

    def explains(self, cause: DeletionCause) -> bool:
        """Whether it has the fields from which a deletion for this cause follows."""
        return cause not in self._undecidable

    @property
    def problem(self) -> str:
        """What is wrong with it and what to do, empty if nothing is."""
        if self.error:
            return (
                f"the installed definition of RayClusters cannot be read ({self.error}), so that "
                "fields that it drops are found only by their consequences; grant the operator "
                "the right to read /openapi/v3, as the ClusterRole system:discovery does"
            )
        if self.missing:
            return (
                f"the installed definition of RayClusters lacks {', '.join(self.missing)}: the API "
                "server drops this from every RayCluster. Workers that seem surplus because of it "
                f"are not deleted. {REMEDY}"
            )
        return ""


def read_definition(installed: InstalledSchema) -> Definition:
    """What follows from the published schema of RayClusters."""
    schema = installed.schema
    if schema is None:
        return Definition(error=installed.error)
    missing = tuple(path for path in _FIELDS if schema.lacks(path))
    if _GROUPS in missing:  # and with them everything in them
        missing = tuple(path for path in missing if not path.startswith(f"{_GROUPS}."))
    undecidable = frozenset(cause for path in missing for cause in _FIELDS[path])
    return Definition(missing, _undecidable=undecidable)
