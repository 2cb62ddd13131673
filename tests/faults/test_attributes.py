"""Requests described in the terms of RBAC."""

from __future__ import annotations

import pytest

from controller.kube.transport import Request
from controller.testing.journal import (
    Attributes,
    EventAttributes,
    attributes_of,
    attributes_of_event,
)

POD = b'{"metadata":{"name":"p"}}'


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request("GET", "/api/v1/pods"), Attributes("list", "pods")),
        (Request("GET", "/api/v1/pods", {"watch": "1"}), Attributes("watch", "pods")),
        (Request("GET", "/api/v1/namespaces/n/pods"), Attributes("list", "pods", "n")),
        (Request("GET", "/api/v1/namespaces/n/pods/p"), Attributes("get", "pods", "n", "p")),
        (
            Request("PATCH", "/apis/ray.io/v1/namespaces/n/rayclusters/c/status"),
            Attributes("patch", "rayclusters.ray.io", "n", "c", "status"),
        ),
        (
            Request("POST", "/api/v1/namespaces/n/pods", body=POD),
            Attributes("create", "pods", "n", "p"),
        ),
        (
            Request("POST", "/api/v1/namespaces/n/pods", body=b"{"),
            Attributes("create", "pods", "n"),
        ),
        (Request("PUT", "/api/v1/nodes/x"), Attributes("update", "nodes", "", "x")),
        (Request("DELETE", "/api/v1/nodes/x"), Attributes("delete", "nodes", "", "x")),
        (Request("DELETE", "/api/v1/nodes"), Attributes("deletecollection", "nodes")),
        (Request("GET", "/api/v1/namespaces"), Attributes("list", "namespaces")),
        (Request("GET", "/api/v1/namespaces/n"), Attributes("get", "namespaces", "", "n")),
        (
            Request("PUT", "/api/v1/namespaces/n/finalize"),
            Attributes("update", "namespaces", "", "n", "finalize"),
        ),
        (
            Request("GET", "/api/v1/namespaces/n/services/s:1/proxy/api/jobs"),
            Attributes("get", "services", "n", "s:1", "proxy"),
        ),
        (Request("GET", "/version"), Attributes("get")),
        (Request("GET", "/apis/apps/v1"), Attributes("get")),
    ],
)
def test_a_request_is_described(request_: Request, expected: Attributes):
    assert attributes_of(request_) == expected


def test_a_post_through_the_proxy_is_no_write_to_the_api_server():
    path = "/api/v1/namespaces/n/services/s:1/proxy/api/jobs"
    assert not attributes_of(Request("POST", path)).writes
    assert attributes_of(Request("POST", "/api/v1/namespaces/n/pods")).writes


def test_an_event_is_described():
    line = b'{"type":"ADDED","object":{"metadata":{"namespace":"n","name":"p"}}}'
    assert attributes_of_event(line) == EventAttributes("ADDED", "n", "p")
    assert attributes_of_event(b"{") == EventAttributes()
