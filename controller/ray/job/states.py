"""The ten states of a RayJob: KubeRay's `status.jobDeploymentStatus`."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """State of a RayJob; the values are KubeRay's."""

    NEW = ""
    INITIALIZING = "Initializing"
    WAITING = "Waiting"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    VALIDATION_FAILED = "ValidationFailed"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RETRYING = "Retrying"

    @property
    def terminal(self) -> bool:
        """True if no other state follows."""
        return self in _TERMINAL

    @property
    def has_attempt(self) -> bool:
        """True if an attempt is in progress and its names are stored."""
        return self in _WITH_ATTEMPT

    @property
    def title(self) -> str:
        """The value, or `New` if it is empty."""
        return self.value or "New"

    @classmethod
    def of(cls, text: str) -> State:
        """Return the state that a status names; `VALIDATION_FAILED` for an unknown one."""
        return _BY_VALUE.get(text, cls.VALIDATION_FAILED)


_TERMINAL: Final = frozenset({State.COMPLETE, State.FAILED})
_WITH_ATTEMPT: Final = frozenset({State.INITIALIZING, State.WAITING, State.RUNNING})
_BY_VALUE: Final = {state.value: state for state in State}
