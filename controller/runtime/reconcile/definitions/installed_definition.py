"""Finds the fields that a planner relies on and the installed definition of its kind lacks.

The API server drops fields that its definition lacks from every object, even when it reads a stored
one. Each kind names the fields whose absence would delete, start or repeat something.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import find_condition, stored_message
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import Event
from controller.runtime.reconcile.definitions.cut_edits import (
    CutEdit,
    ReadGenerations,
    generations_in,
    marked_edit,
    unmarked_edit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.apimachinery.conditions import ConditionSet
    from controller.apimachinery.schemas.object_schema import ObjectSchema
    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from controller.runtime.kind import CacheReader

DEFINITION_COMPLETE: Final = "DefinitionComplete"
"""Type of the condition; it is present only while something is wrong with the definition."""

EVENT_INTERVAL: Final = 600.0
"""Seconds between two events about an object whose status is not written meanwhile."""


def remedy(command: str = "manta crds") -> str:
    """Return the remedy for missing fields, given the command that prints a complete definition."""
    return (
        f"Install this operator's definitions ({command} | kubectl apply -f -) and apply the "
        "manifest again"
    )


REMEDY: Final = remedy()


@dataclass(frozen=True, slots=True)
class InstalledDefinition:
    """The installed definition of a kind, as far as the planner relies on it.

    Attributes:
        kind: name of the kind.
        consequence: what the operator does while fields are missing.
        missing: paths of fields that it lacks.
        error: why it could not be read; empty if it was.
        awaited: whether it is not yet certain that cached objects were read by it.
        unverified: whether the object was edited after the definition was read.
        unread: why neither could be found out, empty if it will be in a moment.
        remedy: what the user can do about missing fields.
        cut: the held edit of the object, because a definition may have cut it.
        read: the generations of the object read so far; None if the process remembers them already.
    """

    kind: str = ""
    consequence: str = ""
    missing: tuple[str, ...] = ()
    error: str = ""
    awaited: bool = False
    unverified: bool = False
    unread: str = ""
    remedy: str = REMEDY
    cut: CutEdit | None = None
    read: ReadGenerations | None = None

    @property
    def problem(self) -> str:
        """A sentence about what is wrong with it and what to do, empty if nothing is."""
        if self.error:
            return (
                f"the installed definition of {self.kind}s cannot be read ({self.error}), so that "
                "fields that it drops are found only by their consequences; grant the operator "
                "the right to read /openapi/v3, as the ClusterRole system:discovery does"
            )
        if self.missing:
            return (
                f"the installed definition of {self.kind}s lacks {', '.join(self.missing)}: the "
                f"API server drops this from every {self.kind}. {self.consequence}. {self.remedy}"
            )
        return ""

    def set_in(self, conditions: ConditionSet) -> None:
        """Set the condition, or remove it if nothing is wrong."""
        if self.error:
            conditions.set(DEFINITION_COMPLETE, "Unknown", "OpenAPIUnreadable", self.problem)
        else:
            conditions.set_if(DEFINITION_COMPLETE, "False", "FieldsMissing", self.problem)

    def events(self, conditions: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
        """Return the event about missing fields, unless the stored condition has its message."""
        known = find_condition(conditions, DEFINITION_COMPLETE) or {}
        if not self.missing or known.get("message") == stored_message(self.problem):
            return ()
        return (Event("Warning", "DefinitionIncomplete", "Reconcile", self.problem),)


class DefinitionReader:
    """Reads the installed definition of a kind; once for each published schema.

    Args:
        resource: resource of the kind.
        relied_on: gives the paths that its planner relies on, for a schema.
        consequence: what the operator does while one of them is missing, without a full stop.
        remedy: what the user can do about it, without a full stop.
    """

    def __init__(
        self,
        resource: Resource[Any],
        relied_on: Callable[[ObjectSchema], Iterable[str]],
        consequence: str,
        remedy: str = REMEDY,
    ) -> None:
        self._resource = resource
        self._relied_on = relied_on
        self._consequence = consequence
        self._remedy = remedy
        self._installed = InstalledSchema()
        self._definition = InstalledDefinition()

    def __call__(self, reads: CacheReader, obj: KubeObject | None = None) -> InstalledDefinition:
        """Return the definition as it was last read, with the state of `obj` if one is given."""
        installed = reads.installed_schema(self._resource)
        if installed is not self._installed:
            self._installed, self._definition = installed, self._read(installed)
        if obj is None:
            return self._definition
        found = self._definition
        if not reads.is_verified(self._resource, obj.metadata.key):
            found = replace(found, unverified=True, unread=installed.error)
        return self._with_generations(found, obj, reads.memory(obj.metadata.uid))

    def _with_generations(
        self, found: InstalledDefinition, obj: KubeObject, memory: object
    ) -> InstalledDefinition:
        """Add the generations of the object read before, and its held edit."""
        before = generations_in(memory)
        generation, is_certain = obj.metadata.generation, not (found.unverified or found.awaited)
        cut, read = marked_edit(self._resource, obj), before
        if found.missing:
            read = before.read_cut(generation, found.missing)
        if cut is None and not found.unverified and (is_certain or not found.missing):
            cut = unmarked_edit(self._resource, obj, read, complete=not found.missing)
        if cut is None and is_certain and not found.missing:
            read = ReadGenerations(whole=generation)
        if cut is None and read == before:
            return found
        return replace(found, cut=cut, read=read if read != before else None)

    def _read(self, installed: InstalledSchema) -> InstalledDefinition:
        """Count the gaps of the previous definition too, while it may have read cached objects."""
        lost = [
            path
            for schema in (installed.schema, installed.previous)
            if schema is not None
            for path in missing_fields(schema, self._relied_on(schema))
        ]
        error = installed.error if installed.schema is None else ""
        missing = tuple(dict.fromkeys(lost))
        return InstalledDefinition(
            self._resource.kind,
            self._consequence,
            missing,
            error,
            awaited=not installed.is_current,
            unread="" if installed.is_current else installed.error,
            remedy=self._remedy,
        )


class DefinitionsReader:
    """Reads the installed definitions of a kind and of another kind that its planner relies on."""

    def __init__(self, own: DefinitionReader, other: DefinitionReader) -> None:
        self._own = own
        self._other = other

    def __call__(self, reads: CacheReader, obj: KubeObject) -> InstalledDefinition:
        """Return the kind's own definition, or the other one's if only that lacks something."""
        own, other = self._own(reads, obj), self._other(reads)
        if own.missing or not other.missing:
            return own
        return replace(other, cut=own.cut, read=own.read)


def missing_fields(schema: ObjectSchema, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that objects lose, without those below another one."""
    lost = [path for path in paths if schema.lacks(path)]
    return tuple(path for path in lost if not any(path.startswith(f"{other}.") for other in lost))
