"""Nobody grants what they do not hold, unless a role lets them: the same on a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.devcluster.apiserver.authorization import Rbac

GROUP = "rbac.authorization.k8s.io"
RBAC = f"{GROUP}/v1"
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
STRONG = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete", "list"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get", "patch"]},
]
REFUSED = "is attempting to grant RBAC permissions not currently held:"


class Alice:
    """She writes roles and bindings, and reads pods."""

    def __init__(self, api: Any) -> None:
        self.api = api

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        patch: str = "application/merge-patch+json",
        query: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """The status, and the message of a refusal."""
        headers = {
            "Content-Type": patch if method == "PATCH" else "application/json",
            "Accept": "application/json",
            "Impersonate-User": "alice",
        }
        raw = None if body is None else json.dumps(body).encode()
        status, _, chunks = await self.api.send(method, path, query or {}, headers, raw)
        answer = json.loads(b"".join([chunk async for chunk in chunks]))
        return status, answer.get("message", "")

    async def writes(self, plural: str, body: dict[str, Any]) -> tuple[int, str]:
        return await self.ask("POST", self.api.path(plural, group=RBAC), body)

    async def patches(self, plural: str, name: str, body: dict[str, Any]) -> tuple[int, str]:
        return await self.ask("PATCH", self.api.path(plural, name, group=RBAC), body)

    async def applies(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        manager = {"fieldManager": "alice"}
        return await self.ask(
            "PATCH", path, body, patch="application/apply-patch+yaml", query=manager
        )

    async def may(self, name: str, *rules: dict[str, Any]) -> None:
        """An administrator gives her a role."""
        subject = {"apiGroup": GROUP, "kind": "User", "name": "alice"}
        for plural, body in (
            ("roles", role(name, *rules)),
            ("rolebindings", binding(name, name) | {"subjects": [subject]}),
        ):
            answer = await self.api.create(self.api.path(plural, group=RBAC), body)
            assert answer.status == 201, answer.body


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, role: str, kind: str = "Role") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "bob"}],
    }


def special(verb: str, *names: str) -> dict[str, Any]:
    return {"apiGroups": [GROUP], "resources": ["*"], "verbs": [verb]} | (
        {"resourceNames": list(names)} if names else {}
    )


@pytest.fixture
async def alice(api: Any) -> Alice:
    if not api.is_real:
        api.server.audit.authorizer = Rbac(api.server.store)
    found = Alice(api)
    await found.may("writer", PODS, *(special(verb) for verb in ("create", "update", "patch")))
    answer = await api.create(api.path("roles", group=RBAC), role("strong", *STRONG))
    assert answer.status == 201
    return found


async def test_a_role_may_have_what_its_writer_holds_and_nothing_else(alice: Alice):
    named = PODS | {"resourceNames": ["a"]}
    assert (await alice.writes("roles", role("weak", PODS, named)))[0] == 201
    status, why = await alice.writes("roles", role("more", *STRONG))
    assert (status, REFUSED in why) == (403, True)
    assert why.startswith(f'roles.{GROUP} "more" is forbidden: user "alice" ')
    assert all(word in why for word in ("delete", "list", "deployments/scale"))


async def test_a_role_that_exists_is_checked_whatever_of_it_changes(alice: Alice):
    labels = {"metadata": {"labels": {"a": "b"}}}
    status, why = await alice.patches("roles", "strong", labels)
    assert (status, REFUSED in why) == (403, True)
    body = role("strong", *STRONG[:1])
    path = alice.api.path("roles", "strong", group=RBAC)
    assert (await alice.ask("PUT", path, body))[0] == 403
    assert (await alice.ask("PUT", path, role("strong", PODS)))[0] == 200


async def test_finalizers_may_be_changed_by_anybody_who_may_write_the_role(alice: Alice):
    finalizers = {"metadata": {"finalizers": ["example.org/a"]}}
    assert (await alice.patches("roles", "strong", finalizers))[0] == 200
    assert (await alice.patches("roles", "strong", {"metadata": {"finalizers": None}}))[0] == 200


async def test_a_binding_needs_what_its_role_grants(alice: Alice):
    assert (await alice.writes("roles", role("weak", PODS)))[0] == 201
    assert (await alice.writes("rolebindings", binding("weak", "weak")))[0] == 201
    status, why = await alice.writes("rolebindings", binding("b", "strong"))
    assert (status, REFUSED in why) == (403, True)
    for kind in ("Role", "ClusterRole"):
        missing = await alice.writes("rolebindings", binding("b", "none", kind))
        assert missing == (404, f'rolebindings.{GROUP} "none" not found')


async def test_the_verbs_bind_and_escalate_allow_it(alice: Alice):
    await alice.may("binder", special("bind", "strong"))
    assert (await alice.writes("rolebindings", binding("b", "strong")))[0] == 201
    assert (await alice.writes("roles", role("more", *STRONG)))[0] == 403
    await alice.may("escalator", special("escalate"))
    assert (await alice.writes("roles", role("more", *STRONG)))[0] == 201


async def test_a_patch_or_update_that_creates_needs_the_right_to_create(alice: Alice):
    verbs = ["patch", "update"]
    rule = {"apiGroups": ["", "coordination.k8s.io"], "resources": ["*"], "verbs": verbs}
    await alice.may("changer", rule)
    path = alice.api.path("configmaps", "a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    assert (await alice.applies(path, body))[0] == 403
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    of_lease = alice.api.path("leases", "a", group="coordination.k8s.io/v1")
    assert (await alice.ask("PUT", of_lease, lease))[0] == 403
    assert (await alice.api.get(path)).status == (await alice.api.get(of_lease)).status == 404

    await alice.may("creator", rule | {"verbs": ["create"]})
    assert (await alice.applies(path, body))[0] == 201
    assert (await alice.ask("PUT", of_lease, lease))[0] == 201


async def test_an_administrator_of_the_namespace_may_not_grant_for_the_cluster(alice: Alice):
    name = f"of-{alice.api.namespace}"
    path = f"/apis/{RBAC}/clusterroles"
    status, why = await alice.ask("POST", path, role(name, PODS))
    assert (status, why.partition(" cannot ")[0]) == (
        403,
        f'clusterroles.{GROUP} is forbidden: User "alice"',
    )
