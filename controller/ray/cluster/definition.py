"""Which deletions of workers the installed definition of RayClusters cannot explain.

A definition of another version, or none that can be read, must not shrink a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.api.installed_definition import DefinitionReader
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.cluster.workers.scale_down import DeletionCause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.installed_definition import InstalledDefinition

_GROUPS: Final = "spec.workerGroupSpecs"
RELIED_ON: Final[Mapping[str, frozenset[DeletionCause]]] = {
    _GROUPS: frozenset({DeletionCause.GROUP_REMOVED, DeletionCause.SURPLUS, DeletionCause.RESIZED}),
    f"{_GROUPS}.replicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.minReplicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.numOfHosts": frozenset({DeletionCause.RESIZED}),
    "spec.enableInTreeAutoscaling": frozenset({DeletionCause.SURPLUS}),
}
"""The fields whose absence would delete workers, and for which cause."""


def definition_reader() -> DefinitionReader:
    """Reads what the installed definition of RayClusters lacks."""
    return DefinitionReader(
        RAYCLUSTERS,
        lambda _schema: RELIED_ON,
        "Workers that seem surplus because of it are not deleted",
    )


def explains(definition: InstalledDefinition, cause: DeletionCause) -> bool:
    """Whether it has the fields from which a deletion for this cause follows."""
    return all(cause not in RELIED_ON[path] for path in definition.missing)
