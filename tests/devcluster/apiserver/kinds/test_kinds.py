"""Pods, services, namespaces, events and other built-in kinds."""

from __future__ import annotations

import pytest

from devcluster.apiserver.kinds.services import Allocations
from tests.devcluster.apiserver.support import STRATEGIC, config_map, pod

CONTAINER = {"name": "main", "image": "busybox"}


def service(name: str, **spec):
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_pod_is_given_defaults(api):
    body = pod("a")
    body["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "0.5", "memory": "1.5Gi"}},
        "readinessProbe": {"httpGet": {"port": 80}},
    }
    answer = (await api.create(api.path("pods"), body)).body
    spec, (container,) = answer["spec"], answer["spec"]["containers"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1536Mi"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/"
    assert container["readinessProbe"]["periodSeconds"] == 10
    assert answer["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("host:5000/a", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
    ],
)
async def test_the_pull_policy_follows_from_the_tag(api, image, policy):
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": image}]}}
    answer = await api.create(api.path("pods"), body, dryRun="All")
    assert answer.body["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, [("FieldValueRequired", "spec.containers")]),
        ({"containers": [{"name": "a"}]}, [("FieldValueRequired", "spec.containers[0].image")]),
        ({"containers": [{"image": "a"}]}, [("FieldValueRequired", "spec.containers[0].name")]),
        (
            {"containers": [CONTAINER, CONTAINER]},
            [("FieldValueDuplicate", "spec.containers[1].name")],
        ),
        (
            {"containers": [CONTAINER | {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            [("FieldValueNotFound", "spec.containers[0].volumeMounts[0].name")],
        ),
        (
            {"containers": [CONTAINER], "restartPolicy": "Sometimes"},
            [("FieldValueNotSupported", "spec.restartPolicy")],
        ),
        (
            {"containers": [CONTAINER | {"ports": [{"containerPort": 99999}]}]},
            [("FieldValueInvalid", "spec.containers[0].ports[0].containerPort")],
        ),
    ],
)
async def test_pod_specs_that_cannot_run_are_invalid(api, spec, causes):
    answer = await api.create(api.path("pods"), {"metadata": {"name": "a"}, "spec": spec})
    assert (answer.status, answer.causes) == (422, causes)


@pytest.mark.vital
@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            {"requests": {"nvidia.com/gpu": "1"}},
            "limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
            'requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
        ),
        (
            {"limits": {"nvidia.com/gpu": "500m"}},
            'limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        (
            {"limits": {"gpu": "1"}},
            'limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        ),
        ({"limits": {"hugepages-2Mi": "2Mi"}}, "Forbidden: HugePages require cpu or memory"),
    ],
)
async def test_resources_of_a_pod_that_no_node_could_count_are_invalid(api, resources, message):
    body = {
        "metadata": {"name": "a"},
        "spec": {"containers": [CONTAINER | {"resources": resources}]},
    }
    answer = await api.create(api.path("pods"), body)
    assert answer.status == 422
    assert message in answer.message


async def test_of_a_pods_spec_only_images_may_change(api):
    await api.create(api.path("pods"), pod("a"))
    image = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    changed = await api.patch(api.path("pods", "a"), image, STRATEGIC)
    assert changed.body["spec"]["containers"][0]["image"] == "busybox:2"
    assert changed.body["metadata"]["generation"] == 2
    refused = await api.patch(api.path("pods", "a"), {"spec": {"nodeName": "x"}})
    assert (refused.status, refused.causes) == (422, [("FieldValueForbidden", "spec")])
    assert "pod updates may not change fields other than" in refused.message


async def test_a_pod_is_bound_once(api):
    await api.create(api.path("pods"), pod("a"))
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    first = await api.create(f"{api.path('pods', 'a')}/binding", binding)
    assert (first.status, first.body["status"]) == (201, "Success")
    bound = (await api.get(api.path("pods", "a"))).body
    assert bound["spec"]["nodeName"] == "n1"
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    again = await api.create(f"{api.path('pods', 'a')}/binding", binding)
    assert (again.status, again.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"',
    )


async def test_the_pod_ip_is_among_the_pod_ips(api):
    await api.create(api.path("pods"), pod("a"))
    answer = await api.patch(f"{api.path('pods', 'a')}/status", {"status": {"podIP": "10.1.2.3"}})
    assert answer.body["status"]["podIPs"] == [{"ip": "10.1.2.3"}]


async def test_a_service_gets_an_address_of_its_own(api):
    spec = (await api.create(api.path("services"), service("a", ports=[{"port": 80}]))).body["spec"]
    assert spec["clusterIP"].startswith("10.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["type"] == "ClusterIP"
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    other = await api.create(api.path("services"), service("b", ports=[{"port": 80}]))
    assert other.body["spec"]["clusterIP"] != spec["clusterIP"]


async def test_an_exposed_service_gets_node_ports(api):
    answer = await api.create(
        api.path("services"), service("a", type="NodePort", ports=[{"port": 80}])
    )
    assert 30000 <= answer.body["spec"]["ports"][0]["nodePort"] < 32768


async def test_an_update_without_address_keeps_it_and_another_is_refused(api):
    created = await api.create(api.path("services"), service("a", ports=[{"port": 80}]))
    kept = await api.replace(api.path("services", "a"), service("a", ports=[{"port": 81}]))
    assert kept.body["spec"]["clusterIP"] == created.body["spec"]["clusterIP"]
    refused = await api.patch(api.path("services", "a"), {"spec": {"clusterIP": "None"}})
    assert refused.status == 422
    assert refused.message == (
        'Service "a" is invalid: spec.clusterIPs[0]: Invalid value: ["None"]: '
        "may not change once set"
    )


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"ports": []}, [("FieldValueRequired", "spec.ports")]),
        (
            {"ports": [{"port": 1}, {"port": 2}]},
            [
                ("FieldValueRequired", "spec.ports[0].name"),
                ("FieldValueRequired", "spec.ports[1].name"),
            ],
        ),
        (
            {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]},
            [("FieldValueDuplicate", "spec.ports[1].name")],
        ),
        (
            {"ports": [{"port": 70000, "targetPort": 1}]},
            [("FieldValueInvalid", "spec.ports[0].port")],
        ),
        (
            {"ports": [{"port": 1, "protocol": "X"}]},
            [("FieldValueNotSupported", "spec.ports[0].protocol")],
        ),
        (
            {"ports": [{"port": 1, "targetPort": "A_b"}]},
            [("FieldValueInvalid", "spec.ports[0].targetPort")],
        ),
        (
            {"type": "Other", "ports": [{"port": 1}]},
            [("FieldValueNotSupported", "spec.type")],
        ),
        pytest.param(
            {"type": "ExternalName", "ports": [{"port": 1}]},
            [("FieldValueNotSupported", "spec.type")],
            marks=pytest.mark.embedded_only,  # a real server has them, and asks for the name
        ),
        (
            {"clusterIP": "1.2.3.4", "ports": [{"port": 1}]},
            [("FieldValueInvalid", "spec.clusterIPs")],
        ),
    ],
)
async def test_services_that_cannot_work_are_invalid(api, spec, causes):
    answer = await api.create(api.path("services"), service("a", **spec))
    assert (answer.status, answer.causes) == (422, causes)


async def test_a_namespace_has_the_kubernetes_finalizer_and_its_name_as_label(api):
    answer = (await api.get(f"/api/v1/namespaces/{api.namespace}")).body
    assert answer["spec"] == {"finalizers": ["kubernetes"]}
    assert answer["status"] == {"phase": "Active"}
    assert answer["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}


async def test_nothing_is_created_in_a_terminating_namespace(api):
    await api.create(api.path("configmaps"), {"metadata": {"name": "a", "finalizers": ["x.y/z"]}})
    deleted = await api.delete(f"/api/v1/namespaces/{api.namespace}")
    assert deleted.body["status"]["phase"] == "Terminating"
    late = await api.create(api.path("configmaps"), config_map("late"))
    assert (late.status, late.body["reason"]) == (403, "Forbidden")
    assert late.causes == [("NamespaceTerminating", "metadata.namespace")]
    assert late.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace '
        f"{api.namespace} because it is being terminated"
    )
    await api.patch(api.path("configmaps", "a"), {"metadata": {"finalizers": []}})


async def test_every_cluster_has_these_from_the_start(api):
    for path in (
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces/kube-public",
        "/api/v1/namespaces/kube-node-lease",
        "/api/v1/namespaces/default/services/kubernetes",
    ):
        assert (await api.get(path)).status == 200, path


async def test_a_job_selects_its_pods_by_its_uid(api):
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    job = {"metadata": {"name": "a"}, "spec": {"suspend": True, "template": template}}
    answer = (await api.create(api.path("jobs", group="batch/v1"), job)).body
    label = {"batch.kubernetes.io/controller-uid": answer["metadata"]["uid"]}
    assert answer["spec"]["selector"] == {"matchLabels": label}
    labels = answer["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= label.items()
    assert labels["job-name"] == "a"
    assert (answer["spec"]["completions"], answer["spec"]["backoffLimit"]) == (1, 6)
    assert answer["status"] == {}


async def test_a_job_whose_pods_restart_for_ever_is_invalid(api):
    job = {"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [CONTAINER]}}}}
    answer = await api.create(api.path("jobs", group="batch/v1"), job)
    assert answer.causes == [("FieldValueRequired", "spec.template.spec.restartPolicy")]


async def test_events_have_two_shapes(api):
    event = {
        "metadata": {"name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "me",
        "reportingInstance": "me-1",
        "action": "Test",
        "reason": "Testing",
        "regarding": {"kind": "Pod", "name": "p", "namespace": api.namespace},
        "note": "said",
        "type": "Warning",
    }
    path = api.path("events", group="events.k8s.io/v1")
    created = await api.create(path, event)
    assert (created.status, created.body["note"]) == (201, "said")
    core = (await api.get(api.path("events", "a"))).body
    assert (core["kind"], core["apiVersion"], core["message"]) == ("Event", "v1", "said")
    assert core["involvedObject"]["name"] == "p"
    assert core["reportingComponent"] == "me"
    assert core["firstTimestamp"] is None
    found = await api.get(api.path("events"), fieldSelector="involvedObject.name=p,type=Warning")
    assert len(found.body["items"]) == 1
    patched = await api.patch(f"{path}/a", {"series": {"count": 2, "lastObservedTime": None}})
    assert patched.status in {200, 422}


async def test_an_endpoint_slice_without_endpoints_says_null(api):
    body = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []}
    answer = await api.create(api.path("endpointslices", group="discovery.k8s.io/v1"), body)
    assert (answer.body["endpoints"], answer.body["ports"]) == (None, None)


async def test_a_secret_takes_plain_text(api):
    body = {"metadata": {"name": "a"}, "data": {"x": "eA=="}, "stringData": {"y": "y"}}
    answer = await api.create(api.path("secrets"), body)
    assert answer.body["data"] == {"x": "eA==", "y": "eQ=="}
    assert (answer.body["type"], "stringData" in answer.body) == ("Opaque", False)


async def test_keys_of_config_maps_are_file_names(api):
    answer = await api.create(
        api.path("configmaps"), {"metadata": {"name": "a"}, "data": {"a/b": "c"}}
    )
    assert answer.causes == [("FieldValueInvalid", "data[a/b]")]


async def test_access_reviews_store_nothing(api):
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await api.create(path, review)
    assert (answer.status, answer.body["status"]["allowed"]) == (201, True)


async def test_a_terminating_pod_is_not_bound(api):
    await api.create(api.path("pods"), pod("a", finalizers=["x.y/z"]))
    await api.delete(api.path("pods", "a"))
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    answer = await api.create(f"{api.path('pods', 'a')}/binding", binding)
    assert answer.status == 409
    assert "pod a is being deleted, cannot be assigned to a host" in answer.message
    await api.patch(api.path("pods", "a"), {"metadata": {"finalizers": None}})


async def test_a_taken_address_is_not_given_again(embedded):
    class Repeating:
        def __init__(self):
            self.numbers = [10, 10, 11]

        def randrange(self, start, stop):
            return self.numbers.pop(0)

    allocations = Allocations(embedded.server.store, Repeating())
    first = allocations.address()
    await embedded.create(
        embedded.path("services"), service("a", clusterIP=first, ports=[{"port": 80}])
    )
    assert allocations.address() != first
