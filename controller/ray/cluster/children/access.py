"""The service account, role and role binding of Ray's autoscaler."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from controller.ray.api import labels
from controller.ray.api.names import checked_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.ray.children.child import Body
    from controller.ray.head.identity import Identity

_RULES: Final = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
)
_RBAC: Final = "rbac.authorization.k8s.io"


def service_account(identity: Identity) -> Body:
    """Return the ServiceAccount of the head pod."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(identity, identity.service_account),
    }


def role(identity: Identity) -> Body:
    """Return the Role with the autoscaler's permissions in its namespace."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata(identity, checked_name(identity.name)),
        "rules": copy.deepcopy(list(_RULES)),
    }


def role_binding(identity: Identity, accounts: Iterable[str]) -> Body:
    """Return the RoleBinding of the role to the service accounts of the head."""
    name = checked_name(identity.name)
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": identity.namespace}
        for account in accounts
    ]
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(identity, name),
        "subjects": subjects,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
    }


def _metadata(identity: Identity, name: str) -> Body:
    return {
        "name": name,
        "namespace": identity.namespace,
        "labels": {
            labels.CLUSTER: identity.name,
            labels.APP_NAME: labels.APP_NAME_VALUE,
            labels.CREATED_BY: labels.CREATED_BY_VALUE,
        },
        "ownerReferences": [identity.owner],
    }
