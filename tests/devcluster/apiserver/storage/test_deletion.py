"""DELETE: grace, finalizers, propagation, preconditions, and what the answer carries."""

from __future__ import annotations

import pytest

from tests.devcluster.apiserver.support import config_map, pod

ELSEWHERE = "aaaaaaaa-0000-4000-8000-000000000000"


async def bound_pod(api, name: str = "a"):
    await api.create(api.path("pods"), pod(name))
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node"}}
    await api.create(f"{api.path('pods', name)}/binding", binding)
    return await api.get(api.path("pods", name))


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("pods", pod("a")),
        ("services", {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}}),
        ("serviceaccounts", {"metadata": {"name": "a"}}),
    ],
)
async def test_deleting_some_kinds_answers_with_the_object(api, plural, body):
    created = await api.create(api.path(plural), body)
    answer = await api.delete(api.path(plural, "a"))
    assert answer.body["kind"] == created.body["kind"]
    assert int(answer.revision) > int(created.revision)


async def test_an_object_with_a_finalizer_is_only_marked(api):
    await api.create(api.path("configmaps"), {"metadata": {"name": "a", "finalizers": ["x.y/z"]}})
    marked = await api.delete(api.path("configmaps", "a"))
    assert marked.body["kind"] == "ConfigMap"
    assert marked.body["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await api.delete(api.path("configmaps", "a"))
    assert again.revision == marked.revision
    assert (await api.get(api.path("configmaps", "a"))).body == marked.body


async def test_removing_the_last_finalizer_removes_the_object(api):
    await api.create(api.path("configmaps"), {"metadata": {"name": "a", "finalizers": ["x.y/z"]}})
    marked = await api.delete(api.path("configmaps", "a"))
    released = await api.patch(api.path("configmaps", "a"), {"metadata": {"finalizers": None}})
    assert released.status == 200
    assert released.revision == marked.revision
    assert (await api.get(api.path("configmaps", "a"))).status == 404
    (event,) = await api.watch(api.path("configmaps"), 1, resourceVersion=marked.revision)
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["finalizers"] == ["x.y/z"]
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(marked.revision)


async def test_a_terminating_object_gets_no_new_finalizers(api):
    await api.create(api.path("configmaps"), {"metadata": {"name": "a", "finalizers": ["x.y/z"]}})
    await api.delete(api.path("configmaps", "a"))
    answer = await api.patch(
        api.path("configmaps", "a"), {"metadata": {"finalizers": ["x.y/z", "more/x"]}}
    )
    assert (answer.status, answer.causes) == (
        422,
        [("FieldValueForbidden", "metadata.finalizers")],
    )
    assert 'found new finalizers []string{"more/x"}' in answer.message


async def test_preconditions_protect_another_incarnation(api):
    created = await api.create(api.path("pods"), pod("a"))
    uid = created.body["metadata"]["uid"]
    for preconditions, words in (
        ({"uid": ELSEWHERE}, f"the UID in the precondition ({ELSEWHERE}) does not match"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match"),
    ):
        answer = await api.delete(api.path("pods", "a"), {"preconditions": preconditions})
        assert (answer.status, answer.body["reason"]) == (409, "Conflict")
        assert words in answer.message
    right = {"preconditions": {"uid": uid, "resourceVersion": created.revision}}
    assert (await api.delete(api.path("pods", "a"), right)).status == 200


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])]
)
async def test_policies_are_finalizers_for_the_garbage_collector(embedded, policy, finalizers):
    await embedded.create(embedded.path("configmaps"), config_map("a"))
    answer = await embedded.delete(embedded.path("configmaps", "a"), propagationPolicy=policy)
    assert answer.body["metadata"]["finalizers"] == finalizers
    assert answer.body["metadata"]["deletionTimestamp"]


async def test_an_unknown_policy_is_invalid(api):
    await api.create(api.path("configmaps"), config_map("a"))
    answer = await api.delete(api.path("configmaps", "a"), propagationPolicy="Other")
    assert answer.status == 422


async def test_jobs_orphan_their_pods_unless_told_otherwise(api):
    job = {
        "metadata": {"name": "a"},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox"}],
                }
            },
        },
    }
    await api.create(api.path("jobs", group="batch/v1"), job)
    answer = await api.delete(api.path("jobs", "a", group="batch/v1"))
    assert "orphan" in answer.body["metadata"]["finalizers"]
    assert len(answer.warnings) == 1


async def test_a_bound_pod_is_deleted_gracefully(api):
    before = await bound_pod(api)
    marked = await api.delete(api.path("pods", "a"))
    metadata = marked.body["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    assert metadata["generation"] == before.body["metadata"]["generation"] + 1
    assert (await api.delete(api.path("pods", "a"))).revision == marked.revision


async def test_the_grace_period_can_only_be_shortened(api):
    await bound_pod(api)
    await api.delete(api.path("pods", "a"))
    shorter = await api.delete(api.path("pods", "a"), gracePeriodSeconds="10")
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 10
    longer = await api.delete(api.path("pods", "a"), gracePeriodSeconds="20")
    assert longer.body["metadata"]["deletionGracePeriodSeconds"] == 10
    assert (await api.delete(api.path("pods", "a"), gracePeriodSeconds="0")).status == 200
    assert (await api.get(api.path("pods", "a"))).status == 404


async def test_the_deletion_timestamp_is_when_the_grace_period_ends(embedded):
    await bound_pod(embedded)
    marked = await embedded.delete(embedded.path("pods", "a"))
    assert marked.body["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    shorter = await embedded.delete(embedded.path("pods", "a"), gracePeriodSeconds="10")
    assert shorter.body["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:10Z"


async def test_an_unbound_pod_goes_at_once_in_two_steps(api):
    created = await api.create(api.path("pods"), pod("a"))
    answer = await api.delete(api.path("pods", "a"))
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 0
    events = await api.watch(api.path("pods"), 2, resourceVersion=created.revision)
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert all("deletionTimestamp" in event["object"]["metadata"] for event in events)
    assert events[1]["object"]["metadata"]["resourceVersion"] == answer.revision


async def test_a_finished_pod_goes_at_once(api):
    await bound_pod(api)
    await api.patch(f"{api.path('pods', 'a')}/status", {"status": {"phase": "Succeeded"}})
    await api.delete(api.path("pods", "a"))
    assert (await api.get(api.path("pods", "a"))).status == 404


async def test_a_collection_is_deleted_by_selection_and_listed(api):
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.create(api.path("pods"), pod(name, labels={"l": label}))
    answer = await api.delete(api.path("pods"), labelSelector="l=x")
    assert (answer.status, answer.body["kind"]) == (200, "PodList")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "c"]
    left = await api.get(api.path("pods"))
    assert [item["metadata"]["name"] for item in left.body["items"]] == ["b"]


async def test_namespaces_have_no_collection_deletion(api):
    assert (await api.delete("/api/v1/namespaces")).status == 405


@pytest.mark.parametrize(
    ("options", "query", "status"),
    [
        ({"dryRun": ["All"]}, {}, 201),
        ({}, {"dryRun": "All"}, 201),
        ({"preconditions": {"uid": "another"}}, {}, 409),
    ],
)
async def test_an_eviction_heeds_its_delete_options(api, options, query, status):
    await api.create(api.path("pods"), pod("a"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    body = eviction | {"deleteOptions": options}
    answer = await api.create(f"{api.path('pods', 'a')}/eviction", body, **query)
    assert answer.status == status
    assert (await api.get(api.path("pods", "a"))).status == 200


async def test_an_evicted_pod_is_deleted(api):
    await api.create(api.path("pods"), pod("a"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    answer = await api.create(f"{api.path('pods', 'a')}/eviction", eviction)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    assert (await api.get(api.path("pods", "a"))).status == 404


@pytest.mark.parametrize(
    ("budgets", "ready", "status"),
    [
        ([{"minAvailable": 1}], "True", 429),
        ([{"minAvailable": 0}], "True", 201),
        ([{"maxUnavailable": 0}], "True", 429),
        ([{"minAvailable": 1}], "False", 429),
        ([{"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}], "False", 201),
        ([{"minAvailable": 0}, {"minAvailable": 0}], "True", 500),
    ],
    ids=["needed", "to-spare", "none-may-go", "ill", "ill-may-go", "two"],
)
async def test_an_eviction_heeds_disruption_budgets(api, budgets, ready, status):
    body = pod("a")
    body["metadata"]["labels"] = {"app": "a"}
    await api.create(api.path("pods"), body)
    conditions = [{"type": "Ready", "status": ready}]
    state = {"status": {"phase": "Running", "conditions": conditions}}
    await api.patch(f"{api.path('pods', 'a')}/status", state)
    for number, budget in enumerate(budgets):
        spec = {"selector": {"matchLabels": {"app": "a"}}} | budget
        path = api.path("poddisruptionbudgets", group="policy/v1")
        await api.create(path, {"metadata": {"name": f"b{number}"}, "spec": spec})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    answer = await api.create(f"{api.path('pods', 'a')}/eviction", eviction)
    assert answer.status == status
