"""A failed write in words, for conditions and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.runtime.plan import verb_of

if TYPE_CHECKING:
    from controller.runtime.plan import Failure


def what_failed(failure: Failure) -> str:
    """A sentence about a write that failed, with the server's words."""
    target = failure.write.target
    doubt = "; it is not known whether it was carried out" if failure.unknown else ""
    return (
        f"cannot {verb_of(failure.write)} {target.resource.kind} {target.name}: "
        f"{failure.message}{doubt}"
    )
