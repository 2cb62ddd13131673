"""Informers that keep the view of a demo up to date."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, TypeVar

from controller.command.development.view import ObjectHandler
from controller.kube.objects import KubeObject
from controller.kube.source import ResourceSource
from informers import Codec, SharedInformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.kube.client import Client
    from controller.kube.resources import Resource

T = TypeVar("T", bound=KubeObject)


def informer_for(
    user: Client,
    resource: Resource[T],
    *saw: Callable[[str, T | None], None],
    namespace: str = "default",
) -> SharedInformer[Any]:
    """Return an informer that calls each of `saw` with the key and state of a changed object."""
    informer = SharedInformer(
        f"demo-{resource.plural}",
        ResourceSource(user, resource, namespace),
        Codec(resource.view),
        clock=asyncio.get_running_loop(),
        rng=random.Random(),
    )
    for one in saw:
        informer.add_handler(ObjectHandler(one))
    return informer
