"""The job that drains nodes; Ray's HTTP API has no request for that.

Its program calls what `ray drain-node` calls, in one process for all nodes, because importing Ray
takes a second of processor time.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.dashboard.client.closing import CLOSING
from controller.ray.dashboard.client.submission import PURPOSE, JobSubmission

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

REASON_MESSAGE: Final = "Manta replaces its pod"
"""Message for a drained node; Ray prefixes `Terminated due to preemption:`."""

_PROGRAM: Final = """
import sys, time
from ray.scripts.scripts import drain_node
for node in sys.argv[3:]:
    drain_node.callback(
        address=None,
        node_id=node,
        reason="DRAIN_NODE_REASON_PREEMPTION",
        reason_message=sys.argv[1],
        deadline_remaining_seconds=max(0, int(float(sys.argv[2]) - time.time())),
    )
"""


_SERVING: Final = f"""{_PROGRAM}{CLOSING}
import traceback
try:
    close_all(time.time() + 30, float(sys.argv[2]), True, sys.argv[3:])
except Exception:
    traceback.print_exc()  # the nodes drain all the same
"""


@dataclass(frozen=True, slots=True)
class NodesDraining:
    """Ray puts no new work on these nodes, and ends each node when its work has ended.

    Attributes:
        count: number of nodes, including those that were already dead.
    """

    count: int


def drain_submission(
    job_id: str, nodes: Sequence[str], until: datetime, *, serving: bool = False
) -> JobSubmission:
    """Return the job that drains these nodes; those still working at `until` are killed.

    If they are `serving`, the proxies of Serve on them close their connections in order.
    """
    program = _SERVING if serving else _PROGRAM
    arguments = (REASON_MESSAGE, f"{until.timestamp():.0f}", *nodes)
    return JobSubmission(
        shlex.join(("python", "-c", program, *arguments)), job_id, metadata={PURPOSE: "drain"}
    )
