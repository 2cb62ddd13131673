"""Behaviour of custom resources: all of it follows from the schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.crd.defaulting import fill_defaults
from controller.devcluster.apiserver.crd.pruning import prune
from controller.devcluster.apiserver.crd.schema import compile_schema
from controller.devcluster.apiserver.crd.structure import ObjectStructure, SchemaStructure
from controller.devcluster.apiserver.crd.validation import validate
from controller.devcluster.apiserver.fields.typed import decode_metadata
from controller.devcluster.apiserver.jsondata import entries
from controller.devcluster.apiserver.meta import STANDARD_FINALIZERS
from controller.devcluster.apiserver.resources.strategy import Strategy

if TYPE_CHECKING:
    from controller.devcluster.apiserver.apply.structure import Structure
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.protocol.status import StatusCause
    from controller.devcluster.apiserver.resources.scale_paths import ScalePaths


_FORMAT = re.compile(r'"number"|of type date-time')
"""Matches errors about the form of a value, not about its type."""


class CustomStrategy(Strategy):
    """Objects of one version of a CustomResourceDefinition."""

    counts_generations = True
    unconditional_update = False
    status_keeps_metadata = True
    standard_finalizers = False
    typed = False

    def __init__(self, source: Json, *, has_status: bool, scale: ScalePaths | None = None) -> None:
        self._source = source
        self._scale = scale
        self._schema = compile_schema(source)
        self.has_status = has_status

    def openapi_schema(self) -> Json:
        """Return the schema of the definition."""
        return self._source

    def decode(self, kind: str, object_: Json) -> list[str]:
        """Prune fields that the schema lacks; metadata is handled as in built-in kinds."""
        return sorted(prune(self._schema, object_) + decode_metadata(kind, object_))

    def apply_errors(self, kind: str, object_: Json) -> list[str]:
        """Include values of the wrong type, which decoding does not find here."""
        problems = super().apply_errors(kind, object_)
        return problems + [
            f".{cause.field}: {cause.message}"
            for cause in validate(self._schema, object_, None)
            if cause.reason == "FieldValueTypeInvalid" and not _FORMAT.search(cause.message)
        ]

    def structure(self, kind: str) -> Structure:  # noqa: ARG002 - the schema says it all
        """Return the structure that the schema's list types define."""
        return ObjectStructure(SchemaStructure(self._schema))

    def default(self, object_: Json) -> None:
        """Fill in the defaults of the schema."""
        fill_defaults(self._schema, object_)

    def warnings(self, object_: Json, old: Json | None) -> list[str]:
        """Warn of finalizers without a domain."""
        known = entries(old["metadata"], "finalizers") if old else []
        return [
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid '
            "accidental conflicts with other finalizer writers"
            for name in entries(object_["metadata"], "finalizers")
            if "/" not in name and name not in known and name not in STANDARD_FINALIZERS
        ]

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate metadata, schema, and the number of replicas."""
        causes = validate(self._schema, object_, old, super().validate(object_, old))
        return causes + (self._scale.problems(object_) if self._scale is not None else [])
