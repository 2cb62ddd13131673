"""A system besides the API server that a kind uses without waiting for it.

Workers only declare what to observe and submit commands. The external source sends the requests,
retries and gives up at its own pace, and enqueues a key when its observation or outcome changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


class Subscription:
    """Base class: an observation of an external system that an object needs."""

    __slots__ = ()


class ExternalCommand:
    """Base class: an action in an external system on behalf of an object.

    Each has an identity of its own, so that submitting it again repeats nothing.
    """

    __slots__ = ()


SubscriptionT_contra = TypeVar("SubscriptionT_contra", bound=Subscription, contravariant=True)
CommandT_contra = TypeVar("CommandT_contra", bound=ExternalCommand, contravariant=True)


class ExternalSource(Protocol[SubscriptionT_contra, CommandT_contra]):
    """The interface to an external system. Only `aclose` may wait, and no method may raise."""

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Call `enqueue` with a key from now on when an observation or outcome of it has changed.

        Called once, before any other method.
        """
        ...

    def sync(self, key: str, subscriptions: tuple[SubscriptionT_contra, ...]) -> None:
        """Replace the subscriptions of this object.

        Called after every plan, and with none when the object no longer exists.
        """
        ...

    def submit(self, key: str, commands: tuple[CommandT_contra, ...]) -> None:
        """Carry out commands whose identities are stored, each only once."""
        ...

    async def aclose(self) -> None:
        """Stop everything of this controller. Called when its workers have ended."""
        ...


AnyExternalSource: TypeAlias = ExternalSource[Any, Any]
"""An external source whose types of subscriptions and commands only its kind knows."""
