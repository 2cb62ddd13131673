"""What runs once is not begun a second time."""

from __future__ import annotations

import pytest

from informers.errors import AlreadyStarted
from informers.informer import SingleRun


def test_a_second_run_is_refused_with_the_message_of_its_caller():
    run = SingleRun()
    run.begin("the first message")
    for _ in range(2):
        with pytest.raises(AlreadyStarted, match=r"^an informer runs once$"):
            run.begin("an informer runs once")
