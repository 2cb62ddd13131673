"""Access reviews, which store nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.access.audit import Attributes
from controller.devcluster.apiserver.access.rbac import Rbac
from controller.devcluster.apiserver.access.users import user_named
from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.protocol.negotiation import content_type, decode_object

if TYPE_CHECKING:
    from controller.devcluster.apiserver.access.audit import Audit
    from controller.devcluster.apiserver.messages import ApiRequest
    from controller.devcluster.apiserver.protocol.paths import ResourcePath

REVIEWS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "subjectaccessreviews": "SubjectAccessReview",
}
GROUP = "authorization.k8s.io"


_EVERYTHING: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def review(request: ApiRequest, where: ResourcePath, audit: Audit) -> Json | None:
    """Return the reviewed object, or None if the request is not a review."""
    if request.method == "POST" and (where.group, where.plural) in _WITHOUT_QUESTION:
        return _answered(request, where, audit)
    if (request.method, where.group, where.plural in REVIEWS) != ("POST", GROUP, True):
        return None
    object_ = decode_object(request.body, content_type(request.headers))
    spec: Json = child(object_, "spec")
    asked: Json = child(spec, "resourceAttributes")
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource += "/" + asked["subresource"]
    if where.plural == "subjectaccessreviews":
        audit.check(_own(request, where))
        user = user_named(str(spec.get("user", "")), *entries(spec, "groups"))
    else:
        user = request.user
    attributes = Attributes(
        user.name,
        request.user_agent,
        asked.get("verb", ""),
        asked.get("group", ""),
        resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
        user.groups,
    )
    return {
        "kind": REVIEWS[where.plural],
        "apiVersion": f"{GROUP}/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": audit.allows(attributes)},
    }


_WITHOUT_QUESTION = {
    ("authentication.k8s.io", "selfsubjectreviews"): "SelfSubjectReview",
    (GROUP, "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
}


def _answered(request: ApiRequest, where: ResourcePath, audit: Audit) -> Json:
    """Return the user, or their rules."""
    kind = _WITHOUT_QUESTION[where.group, where.plural]
    user = request.user
    if kind == "SelfSubjectReview":
        status: Json = {"userInfo": {"username": user.name, "groups": list(user.groups)}}
    else:
        asked = decode_object(request.body, content_type(request.headers))
        namespace = str(child(asked, "spec").get("namespace", ""))
        rules = [_EVERYTHING]
        if isinstance(audit.authorizer, Rbac) and not user.is_admin:
            rules = list(audit.authorizer.rules(user.name, user.groups, namespace))
        others = [{"verbs": ["*" if user.is_admin else "get"], "nonResourceURLs": ["*"]}]
        status = {"resourceRules": rules, "nonResourceRules": others, "incomplete": False}
    return {"kind": kind, "apiVersion": f"{where.group}/v1", "metadata": {}, "status": status}


def _own(request: ApiRequest, where: ResourcePath) -> Attributes:
    """Return the review itself, as a request."""
    user = request.user
    return Attributes(
        user.name, request.user_agent, "create", where.group, where.plural, "", "", user.groups
    )
