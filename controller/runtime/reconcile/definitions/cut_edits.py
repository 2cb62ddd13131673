"""Holds edits that an incomplete definition may have cut: they have no effect until they are whole.

The API server drops the fields that its definition lacks from every edit, and completing the
definition does not bring them back. What is left looks like an edit: for fewer copies, for another
cluster, for a job that is not suspended. So a generation that an object gets in that time is held
until it has another one, read by a complete definition, or a person confirms it (CTL-30).

Normally nothing is written. The last generation that was read whole is the one in the status, which
no plan writes while a definition is incomplete; the process remembers it too, because KubeRay's
definition of RayCronJobs has no field for it. The process also remembers the generation that it has
read meanwhile. If the two differ, the edit is marked on the object, so that the next process holds
it too. This happens once the definition is complete, or earlier if the edit certainly came while
fields were missing: then the edit itself has stored the object without them and the mark removes
nothing, which any other write would (`definition_guard.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import READY
from controller.apimachinery.custom_object import mapping, read_conditions
from controller.apimachinery.kubectl import overwrite_command
from controller.apimachinery.problem import Problem
from controller.runtime.plan import MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource

PRUNED_GENERATION: Final = "manta.dev/pruned-generation"
"""Annotation that holds a generation: `7: spec.replicas`, with the fields that were missing."""

CONFIRM_GENERATION: Final = "manta.dev/confirm-generation"
"""Annotation by which a person confirms the specification of this generation."""

SPEC_PRUNED: Final = "SpecPruned"
"""Reason of the condition and the event about a held object."""

_SHOWN: Final = 10
"""Maximum missing fields to name; more are only counted."""


@dataclass(frozen=True, slots=True)
class ReadGenerations:
    """The generations of an object that this process has read; `Plan.memory` of the kinds.

    Attributes:
        whole: the last one read while the definition was complete; None without one.
        first: the first one read since the definition became incomplete; None without one.
        cut: the last one read since then.
        missing: the fields that the definition lacked then.
    """

    whole: int | None = None
    first: int | None = None
    cut: int | None = None
    missing: tuple[str, ...] = ()

    def read_cut(self, generation: int, missing: Sequence[str]) -> ReadGenerations:
        """Return the generations after a definition without these fields has read this one."""
        before = self.missing if self.cut == generation else ()
        fields = tuple(dict.fromkeys((*before, *missing)))
        first = generation if self.first is None else self.first
        return replace(self, first=first, cut=generation, missing=fields)


def generations_in(memory: object) -> ReadGenerations:
    """Return the generations in the memory of a plan: all that it remembers, or a part of it."""
    found = getattr(memory, "generations", memory)
    return found if isinstance(found, ReadGenerations) else ReadGenerations()


@dataclass(frozen=True, slots=True)
class CutEdit:
    """A held edit of an object.

    Attributes:
        resource: resource of the object.
        obj: the object.
        missing: the fields that may have been dropped, as text.
        marked: whether the object has the mark.
    """

    resource: Resource[Any]
    obj: KubeObject
    missing: str
    marked: bool

    @property
    def problem(self) -> Problem:
        """The problem of the specification, and its remedy."""
        kind, meta = self.resource.kind, self.obj.metadata
        confirmed = {CONFIRM_GENERATION: str(meta.generation)}
        return Problem(
            "spec",
            f"generation {meta.generation} was written while the installed definition of {kind}s "
            f"lacked {self.missing}, so that the API server may have dropped it; nothing is "
            "created, changed or deleted because of it. Apply the manifest again; if that changes "
            "nothing, or the specification is meant as it is, confirm it: "
            f"{overwrite_command('annotate', kind, meta, confirmed)}",
            SPEC_PRUNED,
        )

    @property
    def mark(self) -> MergePatch | None:
        """The patch that makes the next process hold the edit too; None if it is there already."""
        if self.marked:
            return None
        meta = self.obj.metadata
        text = f"{meta.generation}: {self.missing}"
        return MergePatch(
            Target(self.resource, meta.namespace, meta.name),
            meta.uid,
            {"metadata": {"annotations": {PRUNED_GENERATION: text}}},
        )


def marked_edit(resource: Resource[Any], obj: KubeObject) -> CutEdit | None:
    """Return the edit to the present generation if it is marked and not confirmed."""
    annotations, generation = obj.metadata.annotations or {}, str(obj.metadata.generation)
    held, _, missing = annotations.get(PRUNED_GENERATION, "").partition(":")
    if held != generation or annotations.get(CONFIRM_GENERATION) == generation:
        return None
    return CutEdit(resource, obj, missing.strip() or "fields", marked=True)


def unmarked_edit(
    resource: Resource[Any], obj: KubeObject, read: ReadGenerations, *, complete: bool
) -> CutEdit | None:
    """Return the edit to the present generation if it must be marked, else None.

    Args:
        resource: resource of the object.
        obj: the object.
        read: the generations read so far, including the present one.
        complete: whether the definition is complete. Until then only an edit that certainly came
            while it was incomplete is marked.
    """
    generation = obj.metadata.generation
    if read.cut != generation or read.whole == generation:
        return None
    if (obj.metadata.annotations or {}).get(CONFIRM_GENERATION) == str(generation):
        return None
    is_known = observed_generation(obj) == generation if complete else read.first == generation
    if is_known:
        return None
    shown = ", ".join(read.missing[:_SHOWN])
    more = len(read.missing) - _SHOWN
    return CutEdit(resource, obj, f"{shown} and {more} more" if more > 0 else shown, marked=False)


def observed_generation(obj: KubeObject) -> int | None:
    """Return the generation of the status, or else of its newest condition; None if it has none.

    `Ready` does not count: the runtime sets it too, when a kind itself fails.
    """
    status = mapping(getattr(obj, "status", None))
    found = status.get("observedGeneration")
    if isinstance(found, int):
        return found
    conditions = read_conditions(status.get("conditions")) or ()
    generations = (each.get("observedGeneration") for each in conditions if each["type"] != READY)
    return max((one for one in generations if isinstance(one, int)), default=None)
