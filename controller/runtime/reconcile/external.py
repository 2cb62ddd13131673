"""A system besides the API server that a kind uses without waiting for it.

Workers only declare what is to be observed and submit commands. The external source sends the
requests, repeats them and gives up at its own pace, and enqueues the keys for which it has
something new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


class Subscription:
    """Base class of what an object can have observed in an external system."""

    __slots__ = ()


class ExternalCommand:
    """Base class of what an object can have done in an external system.

    Each has an identity of its own, so that submitting it again repeats nothing.
    """

    __slots__ = ()


SubscriptionT_contra = TypeVar("SubscriptionT_contra", bound=Subscription, contravariant=True)
CommandT_contra = TypeVar("CommandT_contra", bound=ExternalCommand, contravariant=True)


class ExternalSource(Protocol[SubscriptionT_contra, CommandT_contra]):
    """What a controller asks of it. Nothing but `aclose` may block, and nothing may raise."""

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Learn how to wake a key when an observation or an outcome of it has changed.

        Called once, before anything else.
        """
        ...

    def sync(self, key: str, subscriptions: tuple[SubscriptionT_contra, ...]) -> None:
        """Observe for this object what `subscriptions` says and nothing else, from now on.

        Called after every plan; with nothing when the object is gone.
        """
        ...

    def submit(self, key: str, commands: tuple[CommandT_contra, ...]) -> None:
        """Carry out commands whose identities are stored; those it knows already only once."""
        ...

    async def aclose(self) -> None:
        """End all that this controller has under way. Called when no worker of it runs any more."""
        ...


AnyExternalSource: TypeAlias = ExternalSource[Any, Any]
"""One whose subscriptions and commands its kind alone knows."""
