"""The table of upgrades says what happens when each way is played."""

from __future__ import annotations

import pytest

from tests.docs.upgrade_table import (
    PAGE,
    TITLES,
    WAYS,
    Facts,
    Way,
    cells,
    column,
    facts_of,
)

ROLLING = WAYS[2]
FACTS = Facts(
    change="one after the other",
    peak=1,
    lacking=0,
    workers="drained",
    head="last",
    version="IncompatibleVersions",
    back="the replaced ones again",
    needs="refused",
)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.picture)
async def test_a_column_says_what_happens_when_the_way_is_played(way: Way):
    shown = column(PAGE.read_text(), 1 + WAYS.index(way))
    assert shown == cells(way, await facts_of(way)), "run python -m tests.docs.upgrade_table"


def test_the_table_has_all_rows():
    assert column(PAGE.read_text(), 0) == list(TITLES)


def test_the_column_of_rolling_updates_follows_from_these_facts():
    assert column(PAGE.read_text(), 3) == cells(ROLLING, FACTS)


OTHERWISE = {
    "change": "nothing",
    "peak": 0,
    "lacking": 3,
    "workers": "kept",
    "head": "kept",
    "version": "works",
    "back": "all again",
    "needs": "",
}


@pytest.mark.parametrize(("fact", "value"), OTHERWISE.items(), ids=str)
def test_another_fact_makes_another_column(fact: str, value: object):
    try:
        written = cells(ROLLING, FACTS._replace(**{fact: value}))
    except KeyError:
        return  # there are no words for it
    assert written != cells(ROLLING, FACTS)
