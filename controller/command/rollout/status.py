"""`manta rollout status`: follows a rollout until it is complete or has failed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from controller.command.rollout.change import read
from controller.command.rollout.errors import RolloutError
from controller.kube.errors import (
    ServerError,
    ServerTimeout,
    TooManyRequests,
    TransportError,
    UnexpectedResponse,
)

if TYPE_CHECKING:
    from controller.command.rollout.progress import RolloutProgress
    from controller.command.rollout.report import Report
    from controller.command.rollout.workload import Workload
    from controller.kube.client import Client

INTERVAL: Final = 1.0
"""Seconds between two looks at the object."""

_PASSING: Final = (
    TransportError,
    UnexpectedResponse,
    TooManyRequests,
    ServerTimeout,
    ServerError,
)
"""Errors that do not concern the object, such as while the API server restarts."""


async def follow(
    client: Client, workload: Workload, report: Report, *, watch: bool, patience: float
) -> RolloutProgress:
    """Return the progress when the rollout is over, or now.

    Once the object has been read, an API server that does not answer is waited for.

    Args:
        client: to ask with.
        workload: what is rolled out.
        report: gets a line whenever something has changed.
        watch: whether to wait for the end.
        patience: seconds to wait; 0 means for ever.

    Raises:
        RolloutError: the object does not exist, or `patience` is at an end.
        KubeError: the first look failed, or another one did for good.
    """
    told = ""
    try:
        async with asyncio.timeout(patience or None):
            while True:
                try:
                    found = workload.kind.progress(await read(client, workload))
                except _PASSING as error:
                    if not told:
                        raise
                    found, text = None, f"Waiting for the API server: {error}..."
                else:
                    text = sentence(workload, found)
                if text != told:
                    report.line(text, _style(found))
                    told = text
                if found is not None and (found.is_over or not watch):
                    return found
                await asyncio.sleep(INTERVAL)
    except TimeoutError:
        raise RolloutError(
            f"{workload} was not rolled out within {patience:g} s: {told or 'nothing is known'}"
        ) from None


def sentence(workload: Workload, progress: RolloutProgress) -> str:
    """Return one line, in kubectl's words where it has any."""
    name = f'{workload.kind.resource.kind.lower()} "{workload.name}"'
    match progress.state:
        case "complete":
            return f"{name} successfully rolled out"
        case "failed":
            return f"{name} cannot be rolled out: {progress.message}"
        case "unobserved":
            return f"Waiting for {name} spec update to be observed..."
        case "paused":
            remedy = f"resume it with `manta rollout resume {workload.argument}`"
            return f"{name} is paused: {progress.message}; {remedy}"
        case "rolling":
            return f"Waiting for {name} rollout to finish: {progress.message}..."


def _style(progress: RolloutProgress | None) -> str:
    state = "" if progress is None else progress.state
    return {"complete": "green", "failed": "red", "paused": "yellow"}.get(state, "")
