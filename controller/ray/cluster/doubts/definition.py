"""The deletions of pods that the installed definition of RayClusters cannot explain.

A definition of another version, or an unreadable one, must not shrink a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from controller.ray.api.fields.upgrade_strategy import FIELD, ROLLING_UPDATE, RollingUpdate
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.cluster.observed.pod_to_delete import DeletionCause
from controller.runtime.reconcile.definitions.installed_definition import DefinitionReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.apimachinery.schemas.object_schema import ObjectSchema
    from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition

_GROUPS: Final = "spec.workerGroupSpecs"
RELIED_ON: Final[Mapping[str, frozenset[DeletionCause]]] = {
    _GROUPS: frozenset({DeletionCause.GROUP_REMOVED, DeletionCause.SURPLUS, DeletionCause.RESIZED}),
    f"{_GROUPS}.replicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.minReplicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.numOfHosts": frozenset({DeletionCause.RESIZED}),
    "spec.enableInTreeAutoscaling": frozenset({DeletionCause.SURPLUS}),
}
"""The fields whose absence would delete workers, by the cause of the deletion."""


ROLLING_FIELDS: Final = frozenset(
    f"{FIELD}.rollingUpdate.{field.encode_name}" for field in msgspec.structs.fields(RollingUpdate)
)
"""The settings of a rolling update: without one of them a paused update would continue."""


def definition_reader() -> DefinitionReader:
    """Return a reader of what the installed definition of RayClusters lacks."""
    return DefinitionReader(
        RAYCLUSTERS,
        _relied_on,
        "Workers that seem surplus because of it are not deleted, and no rolling update continues",
    )


def _relied_on(schema: ObjectSchema) -> Iterator[str]:
    """Yield the fields; KubeRay's definition refuses RollingUpdate and may lack its settings."""
    yield from RELIED_ON
    if schema.accepts(f"{FIELD}.type", ROLLING_UPDATE):
        yield from (f"{FIELD}.rollingUpdate", *sorted(ROLLING_FIELDS))


def explains(definition: InstalledDefinition, cause: DeletionCause) -> bool:
    """Return whether the definition has the fields that lead to a deletion for this cause."""
    return all(cause not in RELIED_ON.get(path, ()) for path in definition.missing)


def fields_that_make_pods(definition: InstalledDefinition) -> tuple[str, ...]:
    """Return the missing fields whose change recreates all pods under `Recreate`."""
    return tuple(path for path in definition.missing if not path.startswith(FIELD))


def explains_rolling(definition: InstalledDefinition) -> bool:
    """Return whether the definition has all settings of a rolling update that it accepts."""
    return not any(path.startswith(f"{FIELD}.") for path in definition.missing)
