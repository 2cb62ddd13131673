"""`manta rollout pause` and `resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.command.rollout.change import change
from controller.command.rollout.errors import RolloutError

if TYPE_CHECKING:
    from controller.command.rollout.report import Report
    from controller.command.rollout.workload import Workload
    from controller.kube.client import Client

Json = dict[str, Any]


async def set_paused(client: Client, workload: Workload, report: Report, *, paused: bool) -> None:
    """Pause or resume.

    Raises:
        RolloutError: it is so already, there are no rolling updates, or the server drops it.
    """
    kind, done = workload.kind, "paused" if paused else "resumed"

    def edit(obj: Json) -> Json:
        if kind.is_paused(obj) == paused:
            raise RolloutError(f"{workload} is {'already' if paused else 'not'} paused")
        return kind.with_pause(obj, paused=paused)

    stored = await change(client, workload, edit)
    if kind.is_paused(stored) != paused:
        raise RolloutError(
            f"{workload} was not {done}: the installed definition drops the field; install this "
            "operator's definitions (manta crds | kubectl apply -f -)"
        )
    report.result(done)
