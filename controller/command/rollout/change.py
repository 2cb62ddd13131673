"""Changes an object under its resource version, and retries after a conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.command.rollout.errors import RolloutError
from controller.kube.errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.command.rollout.workload import Workload
    from controller.kube.client import Client

Json = dict[str, Any]

_ATTEMPTS: Final = 5


async def read(client: Client, workload: Workload) -> Json:
    """Return the object as plain data.

    Raises:
        RolloutError: it does not exist.
    """
    try:
        return await client.get_raw(workload.kind.resource, workload.namespace, workload.name)
    except NotFound:
        raise RolloutError(
            f"{workload} does not exist in namespace {workload.namespace}; -n chooses another one"
        ) from None


async def change(client: Client, workload: Workload, edit: Callable[[Json], Json]) -> Json:
    """Replace the object by `edit` of it; returns what is stored.

    Raises:
        RolloutError: it does not exist, or others change it all the time.
    """
    for _ in range(_ATTEMPTS):
        wanted = edit(await read(client, workload))
        try:
            await client.replace(workload.kind.resource, workload.namespace, workload.name, wanted)
        except Conflict:
            continue
        return await read(client, workload)
    raise RolloutError(f"{workload} is being changed all the time; try again")
