"""Who may use the embedded API server: tokens of service accounts, and RBAC."""

from __future__ import annotations

import pytest

from controller.kube.transport import Request
from devcluster.apiserver.authentication import TokenIssuer
from devcluster.apiserver.authorization import Rbac
from tests.devcluster.apiserver.support import pod

RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def guarded(embedded):
    embedded.server.audit.authorizer = Rbac(embedded.server.store)
    wall = embedded.server.writer._wall
    embedded.server.hooks.tokens = TokenIssuer(embedded.server.store, wall)
    return embedded


async def ask(api, user: str, method: str, path: str, group: str = ""):
    headers = {"Impersonate-User": user} | ({"Impersonate-Group": group} if group else {})
    status, _, chunks = await api.server.request(Request(method, path, {}, headers))
    async for _ in chunks:
        pass
    return status


async def grant(api, rules, *subjects, cluster: bool = False, bound_everywhere: bool = False):
    """Roles and bindings of all four sorts."""
    role, binding = ("ClusterRole" if cluster else "Role"), "RoleBinding"
    path = f"/apis/{RBAC}/clusterroles" if cluster else api.path("roles", group=RBAC)
    meta = {"metadata": {"name": "r"}}
    assert (await api.create(path, {**meta, "rules": rules})).status == 201
    if bound_everywhere:
        binding, path = "ClusterRoleBinding", f"/apis/{RBAC}/clusterrolebindings"
    else:
        path = api.path("rolebindings", group=RBAC)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "r"}
    body = {**meta, "kind": binding, "roleRef": reference, "subjects": list(subjects)}
    assert (await api.create(path, body)).status == 201


ROBOT = "system:serviceaccount:default:robot"
SUBJECT = {"kind": "ServiceAccount", "namespace": "default", "name": "robot"}
PODS = "/api/v1/namespaces/default/pods"
ELSEWHERE = "/api/v1/namespaces/kube-system/pods"
LIST_PODS = {"verbs": ["list", "create"], "apiGroups": [""], "resources": ["pods", "pods/status"]}


async def test_a_user_without_roles_may_do_nothing_but_discover(guarded):
    assert await ask(guarded, ROBOT, "GET", PODS) == 403
    assert await ask(guarded, ROBOT, "GET", "/apis") == 200
    assert (await guarded.get(PODS)).status == 200, "the administrator may"


@pytest.mark.parametrize(
    ("cluster", "bound_everywhere", "elsewhere"),
    [(False, False, 403), (True, False, 403), (True, True, 200)],
)
async def test_roles_count_where_they_are_bound(guarded, cluster, bound_everywhere, elsewhere):
    await grant(guarded, [LIST_PODS], SUBJECT, cluster=cluster, bound_everywhere=bound_everywhere)
    assert await ask(guarded, ROBOT, "GET", PODS) == 200
    assert await ask(guarded, ROBOT, "GET", ELSEWHERE) == elsewhere
    assert await ask(guarded, ROBOT, "GET", "/api/v1/pods") == elsewhere
    assert await ask(guarded, ROBOT, "DELETE", f"{PODS}/a") == 403
    assert await ask(guarded, ROBOT, "GET", f"{PODS}/a") == 403
    assert await ask(guarded, ROBOT.replace("robot", "other"), "GET", PODS) == 403
    assert await ask(guarded, ROBOT.replace("default", "kube-system"), "GET", PODS) == 403


@pytest.mark.parametrize(
    ("subject", "user", "group"),
    [
        ({"kind": "User", "name": "eve"}, "eve", ""),
        ({"kind": "Group", "name": "team"}, "eve", "team"),
        ({"kind": "Group", "name": "system:serviceaccounts:default"}, ROBOT, ""),
        ({"kind": "Group", "name": "system:serviceaccounts"}, ROBOT, ""),
        ({"kind": "Group", "name": "system:authenticated"}, "eve", ""),
    ],
)
async def test_subjects_are_users_and_groups_too(guarded, subject, user, group):
    await grant(guarded, [LIST_PODS], subject)
    assert await ask(guarded, user, "GET", PODS, group) == 200
    assert await ask(guarded, "mallory", "GET", PODS) == (
        200 if subject["name"] == "system:authenticated" else 403
    )


@pytest.mark.parametrize(
    ("rule", "path", "status"),
    [
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, f"{PODS}/a", 404),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, f"{PODS}/a/log", 403),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}, f"{PODS}/a", 403),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]}, f"{PODS}/a/log", 404),
        ({"verbs": ["get"], "apiGroups": ["batch"], "resources": ["pods"]}, f"{PODS}/a", 403),
        ({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}, f"{PODS}/a", 403),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}, f"{PODS}/a", 403),
    ],
)
async def test_rules_name_verbs_groups_and_resources(guarded, rule, path, status):
    await grant(guarded, [rule], SUBJECT)
    guarded.server.hooks.pod_log = None
    assert await ask(guarded, ROBOT, "GET", path) == status


async def test_rules_may_name_objects(guarded):
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}
    await grant(guarded, [rule], SUBJECT)
    assert await ask(guarded, ROBOT, "GET", f"{PODS}/a") == 404
    assert await ask(guarded, ROBOT, "GET", f"{PODS}/b") == 403


async def test_reviews_answer_by_the_roles(guarded):
    await grant(guarded, [LIST_PODS], SUBJECT)
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    async def allowed(verb: str) -> bool:
        attributes = {"verb": verb, "resource": "pods", "namespace": "default"}
        answer = await guarded.create(
            path, {"spec": {"user": ROBOT, "resourceAttributes": attributes}}
        )
        return answer.body["status"]["allowed"]

    assert (await allowed("list"), await allowed("delete")) == (True, False)
    assert await ask(guarded, ROBOT, "POST", path) in {400, 403}


async def token_of(api, name: str, bound=None, **spec) -> tuple[int, str]:
    body = {"spec": {**spec, **({"boundObjectRef": bound} if bound else {})}}
    answer = await api.create(f"{api.path('serviceaccounts', name)}/token", body)
    return answer.status, answer.body["status"]["token"] if answer.status == 201 else ""


async def test_a_token_is_its_accounts(guarded):
    accounts = guarded.path("serviceaccounts")
    await guarded.create(accounts, {"metadata": {"name": "robot"}})
    issuer = guarded.server.hooks.tokens
    status, token = await token_of(guarded, "robot")
    assert status == 201
    user = issuer.user(token)
    assert user.name == ROBOT
    assert "system:serviceaccounts:default" in user.groups
    assert not user.is_admin
    assert (await token_of(guarded, "nobody"))[0] == 404
    assert (await token_of(guarded, "default"))[0] == 201, "it need not exist"


async def test_a_token_ends_with_its_account(guarded):
    accounts = guarded.path("serviceaccounts")
    await guarded.create(accounts, {"metadata": {"name": "robot"}})
    issuer = guarded.server.hooks.tokens
    _, token = await token_of(guarded, "robot")
    await guarded.delete(f"{accounts}/robot")
    assert issuer.user(token) is None
    await guarded.create(accounts, {"metadata": {"name": "robot"}})
    assert issuer.user(token) is None, "another account of that name"


async def test_a_token_ends_with_its_pod(guarded):
    created = await guarded.create(guarded.path("pods"), pod("a"))
    bound = {"kind": "Pod", "name": "a", "uid": created.body["metadata"]["uid"]}
    issuer = guarded.server.hooks.tokens
    _, token = await token_of(guarded, "default", bound)
    assert issuer.user(token)
    await guarded.delete(guarded.path("pods", "a"), {"gracePeriodSeconds": 0})
    assert issuer.user(token) is None


async def test_a_changed_or_foreign_token_is_not_valid(guarded):
    issuer = guarded.server.hooks.tokens
    _, token = await token_of(guarded, "default")
    other = TokenIssuer(guarded.server.store, issuer._wall)
    foreign = other.issue("default", "default", {})["status"]["token"]
    for wrong in (foreign, token[:-1], f"{token}a", token.swapcase(), ""):
        assert issuer.user(wrong) is None
