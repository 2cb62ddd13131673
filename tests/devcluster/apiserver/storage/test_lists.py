"""LIST: revisions, pages, snapshots and selectors."""

from __future__ import annotations

import pytest

from tests.devcluster.apiserver.support import config_map, pod


def names(answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.body["items"]]


async def make_pods(api, *pod_names: str, **labels: str) -> str:
    """Creates pods; the revision of the last."""
    answers = [await api.create(api.path("pods"), pod(name, labels=labels)) for name in pod_names]
    return answers[-1].revision


async def test_pages_show_one_snapshot(api):
    await make_pods(api, "a", "b", "c")
    first = await api.get(api.path("pods"), limit="2")
    assert names(first) == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 1
    await api.delete(api.path("pods", "c"))
    await make_pods(api, "d")
    token = first.body["metadata"]["continue"]
    second = await api.get(api.path("pods"), limit="2", **{"continue": token})
    assert names(second) == ["c"]
    assert second.revision == first.revision
    assert not second.body["metadata"].get("continue")


async def test_pages_of_a_selection_do_not_count_what_remains(api):
    await make_pods(api, "a", "b", x="y")
    answer = await api.get(api.path("pods"), limit="1", labelSelector="x=y")
    assert answer.body["metadata"]["continue"]
    assert "remainingItemCount" not in answer.body["metadata"]


async def test_revision_zero_is_answered_in_one_piece(api):
    await make_pods(api, "a", "b", "c")
    assert len(names(await api.get(api.path("pods"), limit="1", resourceVersion="0"))) == 3


async def test_a_revision_without_match_means_not_older_than(api):
    first = await make_pods(api, "a")
    await make_pods(api, "b")
    assert names(await api.get(api.path("pods"), resourceVersion=first)) == ["a", "b"]


async def test_an_exact_revision_shows_the_past(api):
    first = await make_pods(api, "a")
    await make_pods(api, "b")
    await api.patch(api.path("pods", "a"), {"metadata": {"labels": {"new": "1"}}})
    await api.delete(api.path("pods", "b"))
    answer = await api.get(api.path("pods"), resourceVersion=first, resourceVersionMatch="Exact")
    assert names(answer) == ["a"]
    assert "labels" not in answer.body["items"][0]["metadata"]
    assert answer.revision == first


async def test_a_revision_in_the_future_is_a_timeout(api):
    for path in (api.path("pods"), f"{api.path('pods')}/a"):
        await api.create(api.path("pods"), pod("a"))
        answer = await api.get(path, resourceVersion="999999999")
        assert (answer.status, answer.body["reason"]) == (504, "Timeout")
        assert answer.message.startswith("Timeout: Too large resource version: 999999999")
        details = answer.body["details"]
        assert details["causes"][0]["reason"] == "ResourceVersionTooLarge"
        assert details["retryAfterSeconds"] == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422),
        ({"resourceVersionMatch": "Other", "resourceVersion": "1"}, 422),
        ({"sendInitialEvents": "true"}, 422),
        ({"resourceVersion": "x"}, 400),
        ({"limit": "x"}, 400),
        ({"continue": "x"}, 400),
        ({"labelSelector": "a=b=c"}, 400),
        ({"labelSelector": "a in (b"}, 400),
        ({"labelSelector": "a b"}, 400),
        ({"labelSelector": ","}, 400),
        ({"fieldSelector": "spec.unknown=x"}, 400),
        ({"fieldSelector": "nothing"}, 400),
    ],
)
async def test_parameters_that_make_no_sense_are_refused(api, query, status):
    assert (await api.get(api.path("pods"), **query)).status == status


async def test_a_continue_token_goes_with_no_revision(api):
    await make_pods(api, "a", "b")
    page = await api.get(api.path("pods"), limit="1")
    token = {"continue": page.body["metadata"]["continue"]}
    with_revision = await api.get(api.path("pods"), resourceVersion="1", **token)
    assert (with_revision.status, with_revision.message) == (
        400,
        "specifying resource version is not allowed when using continue",
    )
    with_match = await api.get(api.path("pods"), resourceVersionMatch="Exact", **token)
    assert with_match.status == 422


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=x", ["one"]),
        ("app==x", ["one"]),
        ("app!=x", ["three", "two"]),
        ("app in (x,y)", ["one", "two"]),
        ("app notin (x)", ["three", "two"]),
        ("app", ["one", "two"]),
        ("!app", ["three"]),
        ("app,size>2", ["two"]),
        ("size<2", ["one"]),
        ("", ["one", "three", "two"]),
    ],
)
async def test_label_selectors(api, selector, expected):
    await make_pods(api, "one", app="x", size="1")
    await make_pods(api, "two", app="y", size="3")
    await make_pods(api, "three")
    assert names(await api.get(api.path("pods"), labelSelector=selector)) == expected


async def test_field_selectors(api):
    await make_pods(api, "a", "b")
    assert names(await api.get(api.path("pods"), fieldSelector="metadata.name=b")) == ["b"]
    assert names(await api.get(api.path("pods"), fieldSelector="metadata.name!=b")) == ["a"]
    assert names(await api.get(api.path("pods"), fieldSelector="spec.nodeName=x")) == []
    all_pending = await api.get(api.path("pods"), fieldSelector="status.phase=Pending")
    assert names(all_pending) == ["a", "b"]
    elsewhere = await api.get("/api/v1/pods", fieldSelector=f"metadata.namespace={api.namespace}")
    assert names(elsewhere) == ["a", "b"]


async def test_a_form_that_nobody_serves_is_not_acceptable(api):
    assert (await api.get(api.path("pods"), accept="application/unknown")).status == 406


async def test_namespaces_with_similar_names_are_kept_apart(embedded):
    for namespace in ("a", "a-b", "ab"):
        await embedded.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        await embedded.create(path, config_map(f"in-{namespace}"))
    for namespace in ("a", "a-b", "ab"):
        answer = await embedded.get(f"/api/v1/namespaces/{namespace}/configmaps")
        assert names(answer) == [f"in-{namespace}"]
    assert len(names(await embedded.get("/api/v1/configmaps"))) == 3


async def test_a_compacted_snapshot_is_expired_but_may_be_continued_inconsistently(embedded):
    first = await make_pods(embedded, "a", "b", "c")
    page = await embedded.get(embedded.path("pods"), limit="1")
    await make_pods(embedded, "d")
    embedded.server.compact()
    exact = await embedded.get(
        embedded.path("pods"), resourceVersion=first, resourceVersionMatch="Exact"
    )
    assert (exact.status, exact.body["reason"]) == (410, "Expired")
    token = page.body["metadata"]["continue"]
    expired = await embedded.get(embedded.path("pods"), limit="1", **{"continue": token})
    assert (expired.status, expired.body["reason"]) == (410, "Expired")
    resumed = expired.body["metadata"]["continue"]
    rest = await embedded.get(embedded.path("pods"), **{"continue": resumed})
    assert names(rest) == ["b", "c", "d"]
