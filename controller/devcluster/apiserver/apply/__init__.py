"""Server-side apply: who owns which field, conflicts, and merging by structure.

Objects whose creator names itself are tracked from the start, others from their first apply.
Earlier fields of the latter belong to the manager `before-first-apply`, as upstream.
"""

from controller.devcluster.apiserver.apply.applied import apply_object
from controller.devcluster.apiserver.apply.ownership import track_update

__all__ = ["apply_object", "track_update"]
