"""What other components say: quoted without a colon that nothing follows, ready to go on."""

from __future__ import annotations

import pytest

from controller.ray.diagnosis.pod import saying


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("", "fails"),
        ("  ", "fails"),
        ("no room", "fails: no room"),
        ("The node was low on memory. ", "fails: The node was low on memory"),
        ("and so on...", "fails: and so on..."),
    ],
)
def test_words_of_others_end_without_a_full_stop_and_nothing_leaves_no_colon(said: str, text: str):
    assert saying("fails", said) == text
