"""Reading a list page by page."""

from __future__ import annotations

import pytest

from informers import Codec, Expired, Failed, Malformed, listing
from informers.listing import ListRequest, read_list
from tests.informers.doubles import ScriptedSource, Thing, page, thing

CACHED = ListRequest(revision="0", limit=2)


async def read(lists, request=CACHED):
    source = ScriptedSource(lists=lists)
    try:
        listed = await read_list(source, Codec(Thing), request)
    finally:
        asked.clear()
        asked.extend(source.queries("list"))
    return [obj.metadata.name for obj in listed.objects], listed


asked: list[dict[str, str]] = []


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6])
async def test_all_items_come_in_order_with_the_right_number_of_requests(count):
    items = [thing(f"t{n}", n + 1) for n in range(count)]
    pages = [items[n : n + 2] for n in range(0, count, 2)] or [[]]
    last = len(pages) - 1
    names, listed = await read(
        [page(part, 10 + n, "" if n == last else f"c{n}") for n, part in enumerate(pages)]
    )
    assert names == [f"t{n}" for n in range(count)]
    assert len(asked) == len(pages)
    assert listed.revision == "10"
    assert listed.paginated is (len(pages) > 1)


async def test_an_error_on_a_later_page_is_raised_and_nothing_more_is_asked():
    with pytest.raises(Failed):
        await read([page([thing("a", 1)], 9, "c"), Failed(500), page([], 9)])
    assert len(asked) == 2


async def test_expired_on_the_first_page_is_the_caller_s_business():
    with pytest.raises(Expired):
        await read([Expired(), page([], 9)])
    assert len(asked) == 1


async def test_expired_on_a_later_page_is_followed_by_one_list_without_a_limit():
    names, listed = await read(
        [
            page([thing("old", 1)], 9, "c1"),
            page([thing("older", 2)], 9, "c2"),
            Expired(),
            page([thing("a", 1), thing("b", 2), thing("c", 3)], 12),
        ]
    )
    assert names == ["a", "b", "c"]
    assert listed.revision == "12"
    assert listed.paginated
    assert asked[3] == {"resourceVersion": "0"}


async def test_expired_in_the_full_list_too_is_raised():
    with pytest.raises(Expired):
        await read([page([], 9, "c1"), Expired(), Expired()])


async def test_only_the_first_request_and_the_full_list_carry_revision_and_match():
    request = ListRequest(revision="7", match="Exact", limit=2)
    await read([page([], 7, "c1"), page([], 7, "c2"), Expired(), page([], 7)], request)
    assert asked == [
        {"resourceVersion": "7", "resourceVersionMatch": "Exact", "limit": "2"},
        {"continue": "c1", "limit": "2"},
        {"continue": "c2", "limit": "2"},
        {"resourceVersion": "7", "resourceVersionMatch": "Exact"},
    ]


async def test_a_list_without_a_limit_that_comes_in_pages_is_refused():
    with pytest.raises(Malformed):
        await read([page([], 9, "c1"), Expired(), page([], 9, "c2")])


ENDLESS = {
    "the same page again and again": [page([thing("a", 1)], 9, "c")] * 99,
    "the same objects with other tokens": [page([thing("a", 1)], 9, f"c{n}") for n in range(99)],
    "empty pages of one token": [page([], 9, "c")] * 99,
    "two tokens in turns": [page([], 9, f"c{n % 2}") for n in range(99)],
}


@pytest.mark.parametrize("pages", ENDLESS.values(), ids=ENDLESS)
async def test_pages_that_repeat_are_refused_instead_of_asked_for_without_end(pages):
    with pytest.raises(Malformed):
        await read(pages)
    assert len(asked) <= 3


async def test_a_list_may_have_ten_thousand_pages_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listing, "_MOST_PAGES", 3)
    pages = [page([thing(f"a{n}", 1)], 9, f"c{n}") for n in range(99)]
    names, _ = await read([*pages[:2], page([], 9)])
    assert names == ["a0", "a1"]
    with pytest.raises(Malformed, match="a list of more than 3 pages"):
        await read(pages)
    assert len(asked) == 4


async def test_pages_may_be_empty_or_show_an_object_again_beside_new_ones():
    nameless = {"kind": "Thing", "metadata": {}}
    names, listed = await read(
        [
            page([], 9, "c1"),
            page([], 9, "c2"),
            page([thing("a", 1), nameless], 9, "c3"),
            page([nameless], 9, "c4"),
            page([thing("a", 1), thing("b", 2)], 9),
        ]
    )
    assert names == ["a", "a", "b"]
    assert len(listed.undecodable) == 2


async def test_one_object_that_does_not_fit_costs_only_itself_on_any_page():
    _, listed = await read(
        [
            page([thing("a", 1), thing("odd", 2, size="large")], 9, "c"),
            page([thing("b", 3), thing("odd2", 4, size=None)], 9),
        ]
    )
    assert [obj.metadata.name for obj in listed.objects] == ["a", "b"]
    assert [(odd.key, odd.uid) for odd in listed.undecodable] == [
        ("ns/odd", "uid-odd"),
        ("ns/odd2", "uid-odd2"),
    ]
