"""What `kubectl get` prints."""

from __future__ import annotations

import pytest

from devcluster.apiserver.columns import duration
from tests.devcluster.apiserver.support import TABLE, pod

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def container(name: str, state, *, ready: bool = False, restarts: int = 0, **rest):
    return {
        "name": name,
        "image": "i",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
    } | rest


async def cells(api, path: str) -> dict[str, str]:
    table = (await api.get(path, accept=TABLE)).body
    assert table["kind"] == "Table"
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, ("0/2", "Pending", "0")),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container("main", RUNNING, ready=True),
                    container("side", RUNNING, ready=True, restarts=3),
                ],
            },
            ("2/2", "Running", "3"),
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    container("main", {"waiting": {"reason": "ImagePullBackOff"}}),
                    container("side", {"waiting": {"reason": "ContainerCreating"}}),
                ],
            },
            ("0/2", "ImagePullBackOff", "0"),
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    container("main", {"terminated": {"exitCode": 3}}),
                    container("side", {"terminated": {"exitCode": 0, "reason": "Completed"}}),
                ],
            },
            ("0/2", "ExitCode:3", "0"),
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container("main", RUNNING, ready=True),
                    container("side", {"terminated": {"exitCode": 0, "reason": "Completed"}}),
                ],
            },
            ("1/2", "NotReady", "0"),
        ),
        ({"phase": "Failed", "reason": "Evicted"}, ("0/2", "Evicted", "0")),
        (
            {"phase": "Pending", "initContainerStatuses": [container("init", RUNNING)]},
            ("0/2", "Init:0/1", "0"),
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    container(
                        "init", {"terminated": {"exitCode": 1, "reason": "Error"}}, restarts=2
                    )
                ],
            },
            ("0/2", "Init:Error", "2"),
        ),
    ],
)
async def test_the_status_of_pods(api, status, expected):
    body = pod("a")
    body["spec"]["containers"].append({"name": "side", "image": "i"})
    body["spec"]["initContainers"] = [{"name": "init", "image": "i"}]
    await api.create(api.path("pods"), body)
    await api.patch(f"{api.path('pods', 'a')}/status", {"status": status})
    row = await cells(api, api.path("pods"))
    assert (row["Ready"], row["Status"], row["Restarts"]) == expected
    assert (row["IP"], row["Node"]) == ("<none>", "<none>")


async def test_a_terminating_pod_says_so(api):
    await api.create(api.path("pods"), pod("a", finalizers=["x.y/z"]))
    await api.delete(api.path("pods", "a"))
    assert (await cells(api, api.path("pods")))["Status"] == "Terminating"
    await api.patch(api.path("pods", "a"), {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {
                "selector": {"b": "c", "a": "b"},
                "ports": [
                    {"port": 80, "name": "x"},
                    {"port": 53, "protocol": "UDP", "name": "y"},
                ],
            },
            ("ClusterIP", "<none>", "80/TCP,53/UDP"),
        ),
        (
            {"clusterIP": "None", "selector": {"a": "b"}},
            ("ClusterIP", "<none>", "<none>"),
        ),
        (
            {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 31999}]},
            ("LoadBalancer", "<pending>", "80:31999/TCP"),
        ),
    ],
)
async def test_services(api, spec, expected):
    await api.create(api.path("services"), {"metadata": {"name": "a"}, "spec": spec})
    row = await cells(api, api.path("services"))
    found = tuple(row[name] for name in ("Type", "External-IP", "Port(s)"))
    assert found == expected


async def test_leases_show_who_holds_them(api):
    """The runbook of the alert about a missing leader asks for them."""
    path = api.path("leases", "leader", group="coordination.k8s.io/v1")
    lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "pod_1"}}
    await api.create(api.path("leases", group="coordination.k8s.io/v1"), lease)
    assert (await cells(api, path))["Holder"] == "pod_1"


async def test_events(api):
    event = {
        "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": api.namespace},
        "reason": "R",
        "message": "said ",
        "type": "Normal",
        "source": {"component": "c", "host": "h"},
        "count": 3,
    }
    await api.create(api.path("events"), event)
    row = await cells(api, api.path("events"))
    assert (row["Object"], row["Message"]) == ("pod/p", "said")


async def test_a_table_comes_with_or_without_objects(api):
    await api.create(api.path("pods"), pod("a"))
    for include, expected in (
        ("", "PartialObjectMetadata"),
        ("Metadata", "PartialObjectMetadata"),
        ("Object", "Pod"),
        ("None", None),
    ):
        answer = await api.get(api.path("pods"), accept=TABLE, includeObject=include)
        found = answer.body["rows"][0]["object"]
        assert (found or {}).get("kind") == expected, include


async def test_only_the_first_table_of_a_watch_has_columns(api):
    created = await api.create(api.path("pods"), pod("a"))
    await api.create(api.path("pods"), pod("b"))
    start = str(int(created.revision) - 1)
    tables = []
    async for event in api.stream(api.path("pods"), TABLE, resourceVersion=start):
        tables.append(event["object"])
        if len(tables) == 2:
            break
    assert tables[0]["columnDefinitions"]
    assert not tables[1].get("columnDefinitions")
    assert [table["rows"][0]["cells"][0] for table in tables] == ["a", "b"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_ages(seconds, text):
    assert duration(seconds) == text
