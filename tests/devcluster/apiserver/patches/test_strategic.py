"""Strategic merge patch: which lists are merged, by what, and in which order."""

from __future__ import annotations

from tests.devcluster.apiserver.support import STRATEGIC, pod


async def two_containers(api) -> None:
    body = pod("a", finalizers=["a/b"], labels={"x": "1"})
    body["spec"]["containers"].append({"name": "side", "image": "busybox:1"})
    await api.create(api.path("pods"), body)


async def patched(api, patch, subresource: str = ""):
    path = api.path("pods", "a") + (f"/{subresource}" if subresource else "")
    answer = await api.patch(path, patch, STRATEGIC)
    assert answer.status == 200, answer.body
    return answer.body


async def test_containers_are_merged_by_name(api):
    await two_containers(api)
    patch = {"spec": {"containers": [{"name": "side", "image": "busybox:2"}]}}
    containers = (await patched(api, patch))["spec"]["containers"]
    images = {container["name"]: container["image"] for container in containers}
    assert images == {"main": "busybox:1", "side": "busybox:2"}


async def test_maps_are_merged_and_keys_removed_by_null(api):
    await two_containers(api)
    body = await patched(api, {"metadata": {"labels": {"x": None, "y": "2"}}})
    assert body["metadata"]["labels"] == {"y": "2"}


async def test_a_map_can_be_replaced(api):
    await two_containers(api)
    body = await patched(api, {"metadata": {"labels": {"$patch": "replace", "z": "1"}}})
    assert body["metadata"]["labels"] == {"z": "1"}


async def test_sets_grow_in_front_and_shrink_by_directive(api):
    await two_containers(api)
    body = await patched(api, {"metadata": {"finalizers": ["c/d"]}})
    assert body["metadata"]["finalizers"] == ["c/d", "a/b"]
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}
    assert (await patched(api, gone))["metadata"]["finalizers"] == ["c/d"]
    await patched(api, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["c/d"]}})


def condition(kind: str, status: str = "True"):
    return {"type": kind, "status": status}


async def test_conditions_are_merged_by_type_ordered_and_deleted(api):
    await api.create(api.path("pods"), pod("a"))

    async def conditions(status):
        body = await patched(api, {"status": status}, "status")
        return [(one["type"], one["status"]) for one in body["status"]["conditions"]]

    await conditions({"conditions": [condition("Ready"), condition("Init")]})
    changed = await conditions({"conditions": [condition("Ready", "False")]})
    assert changed == [("Ready", "False"), ("Init", "True")]
    ordered = await conditions(
        {
            "$setElementOrder/conditions": [{"type": "New"}, {"type": "Ready"}],
            "conditions": [condition("New"), {"type": "Init", "$patch": "delete"}],
        }
    )
    assert ordered == [("New", "True"), ("Ready", "False")]


async def test_a_list_can_be_replaced(api):
    spec = {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}
    await api.create(api.path("services"), {"metadata": {"name": "s"}, "spec": spec})
    answer = await api.patch(
        api.path("services", "s"),
        {"spec": {"ports": [{"$patch": "replace"}, {"port": 99}]}},
        STRATEGIC,
    )
    assert [port["port"] for port in answer.body["spec"]["ports"]] == [99]
