"""Refuses a second run of what runs once."""

from __future__ import annotations

from informers.errors import AlreadyStarted


class SingleRun:
    """Remembers whether the only run has begun."""

    def __init__(self) -> None:
        self._begun = False

    def begin(self, refusal: str) -> None:
        """Begin the run.

        Raises:
            AlreadyStarted: it has begun before; `refusal` is the message.
        """
        if self._begun:
            raise AlreadyStarted(refusal)
        self._begun = True
