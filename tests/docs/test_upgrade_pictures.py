"""The pictures of upgrades show what the operator does, and the table what the pictures show."""

from __future__ import annotations

import pytest

from tests.docs.upgrade_pictures import PAGE, PICTURES, WORKERS, block


@pytest.mark.parametrize("name", PICTURES)
async def test_the_page_shows_what_the_operator_does(name: str):
    drawn = await PICTURES[name]()
    assert block(PAGE.read_text(), name) == drawn, "run python -m tests.docs.upgrade_pictures"


MORE_PODS = {
    "as before": 0,
    "+ `maxSurge` of a group": 1,
    "twice as many, or + `maxSurgePercent`": 1 + WORKERS,
    "+ `maxSurge` copies": 1,
}
LACKING = {"all": 0, "none": WORKERS, "all but `maxUnavailable`": 0}
"""What the words of the table come to in the pictures."""


@pytest.mark.parametrize(("column", "name"), list(enumerate(PICTURES)))
def test_the_table_says_what_the_pictures_show(column: int, name: str):
    frames = block(PAGE.read_text(), name).splitlines()[2:-1]
    pods = [sum(map(frame.count, "Hh#~.x")) for frame in frames]
    ready = [frame.count("#") for frame in frames]
    assert MORE_PODS[row("Pods at the peak")[column]] == max(pods) - pods[0]
    capacity = row("Capacity meanwhile")[column].removesuffix(" copies")
    assert LACKING[capacity] == ready[0] - min(ready)


def row(title: str) -> list[str]:
    """The cells of the row of the table that compares the ways."""
    found = next(each for each in PAGE.read_text().splitlines() if each.startswith(f"| {title} |"))
    return [cell.strip() for cell in found.split("|")[2:-1]]
