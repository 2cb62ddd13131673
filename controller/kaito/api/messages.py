"""Messages of conditions and events: of writes that failed, and their length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.runtime import reasons
from controller.runtime.plan import Failure, verb_of
from controller.runtime.reasons import refusal_of, remedy_of, with_remedy

if TYPE_CHECKING:
    from controller.apimachinery.conditions import ConditionSet


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why something gets no further.

    Attributes:
        reason: in one word; empty while only time is needed.
        message: in words, with the remedy if a person has to act.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ConditionFacts:
    """One condition, but for its times."""

    type: str
    is_true: bool
    reason: str
    message: str

    def set_in(self, conditions: ConditionSet) -> None:
        """Set it among the conditions of an object."""
        status = "True" if self.is_true else "False"
        conditions.set(self.type, status, self.reason, self.message)


# Cuts texts for conditions.

_LONGEST: Final = 256


def cut(text: str) -> str:
    """Return the text, cut after 256 bytes as Kaito does."""
    encoded = text.encode()
    if len(encoded) <= _LONGEST:
        return text
    return f"{encoded[:_LONGEST].decode(errors='ignore')}..."


# The reason and the message of a failed write, for conditions and events.

_REMEDIES: Final = {
    reasons.ADMISSION_DENIED: "change the object accordingly, or ask for another policy",
    reasons.OBJECT_INVALID: "correct the field that leads to this",
    reasons.OBJECT_TOO_LARGE: "make what it is made from smaller",
}


def failure_reason(failure: Failure) -> str:
    """Return the server's reason, or that of the Ray kinds for a webhook that does not answer."""
    refusal = refusal_of(failure)
    return refusal.name if refusal is reasons.ADMISSION_UNAVAILABLE else failure.reason


def failure_event(failure: Failure) -> str:
    """Return the reason of an event: `FailedToCreateStatefulSet`."""
    return f"FailedTo{verb_of(failure.write).capitalize()}{failure.write.target.resource.kind}"


def what_failed(failure: Failure) -> str:
    """Return a sentence about a failed write, with the server's words and the next step."""
    target = failure.write.target
    doubt = "; it is not known whether it was carried out" if failure.unknown else ""
    return with_remedy(
        f"cannot {verb_of(failure.write)} {target.resource.kind} {target.name}: "
        f"{failure.message}{doubt}",
        remedy_of(failure, _REMEDIES),
    )
