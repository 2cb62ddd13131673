"""The debug page: what a process is doing now, for a person on call.

`page` reads all parts of the process and `server` serves the page on the loopback interface. This
package exports what other packages need to add a section or to read the page.
"""

from controller.runtime.debug.sections import leader as leader_section
from controller.runtime.debug.shape import (
    LIMIT,
    BackingOffKey,
    BoundedList,
    ControllerEntry,
    EventLoop,
    ExpectationEntry,
    ExpectationsSection,
    InformerEntry,
    Leader,
    PageContent,
    ProbeEntry,
    RunEntry,
    TaskGroup,
    cause,
    listing,
)

__all__ = [
    "LIMIT",
    "BackingOffKey",
    "BoundedList",
    "ControllerEntry",
    "EventLoop",
    "ExpectationEntry",
    "ExpectationsSection",
    "InformerEntry",
    "Leader",
    "PageContent",
    "ProbeEntry",
    "RunEntry",
    "TaskGroup",
    "cause",
    "leader_section",
    "listing",
]
