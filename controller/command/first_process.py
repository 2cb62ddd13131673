"""The first process of a container, for which signals have no default action.

The kernel drops SIGTERM for such a process until it has a handler. The operator's own follows when
all modules are loaded, which takes seconds under a small limit of the processor; without one until
then, the kubelet would wait for the whole grace period.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def end_on_sigterm() -> None:
    """Have SIGTERM end this process as it ends all others, if it is the first one."""
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
