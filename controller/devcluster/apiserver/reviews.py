"""Access reviews, which store nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.audit import Attributes
from controller.devcluster.apiserver.jsondata import Json, child
from controller.devcluster.apiserver.negotiation import content_type, decode_object

if TYPE_CHECKING:
    from controller.devcluster.apiserver.audit import Audit
    from controller.devcluster.apiserver.messages import Request
    from controller.devcluster.apiserver.paths import ResourcePath

REVIEWS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "subjectaccessreviews": "SubjectAccessReview",
}
GROUP = "authorization.k8s.io"


EVERYTHING: Json = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(request: Request, where: ResourcePath, audit: Audit) -> Json | None:
    """The reviewed object, or None if the request is no review."""
    if request.method == "POST" and (where.group, where.plural) in _WITHOUT_QUESTION:
        return _answered(request, where)
    if (request.method, where.group, where.plural in REVIEWS) != ("POST", GROUP, True):
        return None
    object_ = decode_object(request.body, content_type(request.headers))
    spec: Json = child(object_, "spec")
    asked: Json = child(spec, "resourceAttributes")
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource += "/" + asked["subresource"]
    attributes = Attributes(
        spec.get("user") or request.user,
        request.user_agent,
        asked.get("verb", ""),
        asked.get("group", ""),
        resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
    )
    allowed = audit.authorizer is None or audit.authorizer(attributes)
    return {
        "kind": REVIEWS[where.plural],
        "apiVersion": f"{GROUP}/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": allowed},
    }


_WITHOUT_QUESTION = {
    ("authentication.k8s.io", "selfsubjectreviews"): "SelfSubjectReview",
    (GROUP, "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
}


def _answered(request: Request, where: ResourcePath) -> Json:
    """The user, or their rules; rules of the authorizer are not listed."""
    kind = _WITHOUT_QUESTION[where.group, where.plural]
    status: Json = {"userInfo": {"username": request.user, "groups": ["system:authenticated"]}}
    return {
        "kind": kind,
        "apiVersion": f"{where.group}/v1",
        "metadata": {},
        "status": status if kind == "SelfSubjectReview" else EVERYTHING,
    }
