"""The claim for the volume of an embedded GCS store (backend rocksdb)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.ownership import is_owned_by
from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.ray.api import labels
from controller.ray.api.raycluster import GcsStorage
from controller.ray.children.child import DesiredFields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.kube.objects import PersistentVolumeClaim
    from controller.ray.children.child import Body, OwnedKeys
    from controller.ray.head.identity import Identity

_DEFAULT_SIZE: Final = "1Gi"
_DEFAULT_MODES: Final = ("ReadWriteOnce",)


def storage_claim(identity: Identity, name: str, storage: GcsStorage | None) -> Body:
    """Return the claim; `Retain` leaves out its owner, so that it is not garbage-collected."""
    storage = storage or GcsStorage()
    metadata: Body = {
        "name": name,
        "namespace": identity.namespace,
        "labels": {labels.CLUSTER: identity.name},
    }
    if storage.deletion_policy != "Retain":
        metadata["ownerReferences"] = [identity.owner]
    spec: Body = {
        "accessModes": list(storage.access_modes or _DEFAULT_MODES),
        "resources": {"requests": {"storage": str(storage.size or _DEFAULT_SIZE)}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }


def desired_claim_fields(owner_uid: str) -> Any:
    """Return the desired fields of an existing claim: only its owner can be changed."""

    def desired_fields(
        body: Mapping[str, Any], present: PersistentVolumeClaim, formerly: OwnedKeys
    ) -> DesiredFields:
        del formerly
        wanted: list[Body] = body["metadata"].get("ownerReferences", [])
        fields: Body = {}
        if bool(wanted) is not is_owned_by(present.metadata, owner_uid):
            others = [
                {key: value for key, value in reference.items() if value is not None}
                for reference in msgspec.to_builtins(present.metadata.owner_references)
                if reference["uid"] != owner_uid
            ]
            fields = {"metadata": {"ownerReferences": [*others, *wanted]}}
        drift = "; ".join(_drift(body["spec"], present))
        if not drift:
            return DesiredFields(fields)
        message = f"{drift}: a claim is immutable; delete it so that it is created again"
        return DesiredFields(fields, (message,))

    return desired_fields


def _drift(wanted: Mapping[str, Any], present: PersistentVolumeClaim) -> Iterator[str]:
    now = present.spec
    asked: str = wanted["resources"]["requests"]["storage"]
    given = (now.resources.requests or {}).get("storage", 0)
    if not _same_size(asked, given):
        yield f"size {asked} is wanted and {given} was claimed"
    storage_class = wanted.get("storageClassName")
    if storage_class is not None and storage_class != now.storage_class_name:
        given_class = now.storage_class_name or "none"
        yield f"storageClassName {storage_class} is wanted and it is {given_class}"
    if sorted(wanted["accessModes"]) != sorted(now.access_modes):
        modes = ", ".join(now.access_modes)
        yield f"accessModes {', '.join(wanted['accessModes'])} are wanted and they are {modes}"


def _same_size(asked: object, given: object) -> bool:
    try:
        return parse_quantity(str(asked)).nanos == parse_quantity(str(given)).nanos
    except InvalidQuantity:
        return asked == given
