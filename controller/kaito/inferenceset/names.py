"""Names of the Workspaces of an InferenceSet.

A name follows from the set and the replica's index. A create that is repeated, after a lost
response or because of a late cache, finds the Workspace that it created before, so that no replica
has two. Kaito lets the API server choose names.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from controller.apimachinery.names import suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import ObjectMeta

_LENGTH: Final = 5
"""Characters of the suffix, as many as those that the API server chooses."""


def replica_names(inference_set: ObjectMeta) -> Iterator[str]:
    """Yield the names, by index, each once; they never end."""
    used: set[str] = set()
    for index in count():
        attempts = (_name(inference_set, index, attempt) for attempt in count())
        name = next(each for each in attempts if each not in used)
        used.add(name)
        yield name


def _name(inference_set: ObjectMeta, index: int, attempt: int) -> str:
    digits = suffix(inference_set.uid, "replica", str(index), str(attempt))[:_LENGTH]
    return f"{inference_set.name}-{digits}"
