"""Server-side apply: who owns which field, conflicts, and merging by structure.

Objects whose creator names itself are tracked from the start, others from their first apply on;
what they held before then belongs to the manager `before-first-apply`, as upstream has it for
objects without `managedFields`.
"""

from controller.devcluster.apiserver.apply.applied import apply_object
from controller.devcluster.apiserver.apply.ownership import track_update

__all__ = ["apply_object", "track_update"]
