"""Manifest files as plain data, and what the API server says of one that it refuses."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from controller.apimachinery.object_schema import ObjectSchema
from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_documents
from controller.kube.client import Client
from controller.kube.errors import (
    ConfigurationError,
    Invalid,
    KubeError,
    NotFound,
    PathNotFound,
    StatusError,
)
from controller.kube.resources import INSTALL_CRDS, Resource

Json = dict[str, Any]

STANDARD_INPUT = Path("-")
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_LIMITS: Final = YamlLimits(bytes=32 * 1024 * 1024, values=2_000_000, levels=150)
"""More than fits into any API server; the operator reads fields of 100 levels at most."""


def load(path: Path) -> list[Json]:
    """Return all objects of a YAML or JSON file, of such files in a folder, or of `-`.

    Lists are taken apart.

    Raises:
        ConfigurationError: something cannot be read or parsed; the message names every such file.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise ConfigurationError(f"{path} holds no .yaml, .yml or .json file")
    objects: list[Json] = []
    errors: list[str] = []
    for file in files:
        try:
            objects += _load_file(file)
        except ConfigurationError as error:
            errors.append(str(error))
    if errors:
        raise ConfigurationError("\n".join(errors))
    return objects


def _load_file(file: Path) -> list[Json]:
    name = "standard input" if file == STANDARD_INPUT else str(file)
    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
        documents = read_yaml_documents(content, _LIMITS)
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {error.strerror}") from error
    except InvalidYaml as error:
        raise ConfigurationError(f"{name} {error}") from error
    objects: list[Json] = []
    for document in documents:
        objects += _objects_of(document, name)
    return objects


def _objects_of(document: Any, file: str) -> list[Json]:
    """Return the objects of a document: none of an empty one, all of a list.

    Raises:
        ConfigurationError: it is no object, or one without a kind.
    """
    if document is None:
        return []
    if not isinstance(document, dict):
        raise ConfigurationError(f"{file} holds a document that is no object: {document!r:.60}")
    found = cast("Json", document)
    _check_metadata(found, file)
    if found.get("kind") != "List":
        return [found]
    items: Any = found.get("items") or []
    if not isinstance(items, list):
        raise ConfigurationError(f"{file}: items of a List must be a list")
    return [each for item in cast("list[Any]", items) for each in _objects_of(item, file)]


def _check_metadata(found: Json, file: str) -> None:
    if not isinstance(found.get("kind"), str):
        raise ConfigurationError(f"{file} holds an object without a kind: {found!r:.60}")
    meta: Any = found.get("metadata") or {}
    if not isinstance(meta, dict):
        raise ConfigurationError(f"{file}: metadata of a {found.get('kind')} must be an object")
    for field in ("name", "namespace", "generateName"):
        value: Any = cast("Json", meta).get(field)
        if not isinstance(value, str | None):
            raise ConfigurationError(
                f"{file}: metadata.{field} of a {found.get('kind')} must be text, not {value!r:.60}"
            )


# What the API server says of a manifest that it refuses, in the words of a command.

_STRICT: Final = "strict decoding error: "
_ODD_FIELD: Final = re.compile(r'(unknown|duplicate) field "([^"]+)"')
_NAMESPACE: Final = re.compile(r'namespaces "([^"]+)" not found')
_WRONG_TYPE: Final = re.compile(r'in body must be of type ([a-z,]+): "([a-z]+)"$')
_NO_CHOICE: Final = re.compile(r'Unsupported value: ("?)(.*?)\1: supported values: (.*)$')
_DUPLICATE: Final = re.compile(r"Duplicate value: (.*)$")
_PATTERN: Final = re.compile(r"in body should match '(.*)'$")
_INVALID: Final = re.compile(r'Invalid value: (?:"[^"]*": |-?[0-9.]+: )?')


def is_strict(error: StatusError) -> bool:
    """Return whether the server has looked at nothing but the names of fields."""
    return _STRICT in str(error)


def is_of_shape(error: StatusError) -> bool:
    """Return whether something has the wrong type or is missing, so that nothing else is judged."""
    reasons = {reason for reason, _ in error.status.causes}
    return bool(reasons & {"FieldValueTypeInvalid", "FieldValueRequired"})


def refusals(error: StatusError, schema: ObjectSchema | None) -> list[str]:
    """Return a sentence for each thing that the server refuses, with the nearest field."""
    if is_strict(error):
        found = _ODD_FIELD.findall(str(error))
        return [_odd_field(path, schema, what) for what, path in found] or [str(error)]
    if isinstance(error, NotFound) and (missing := _NAMESPACE.fullmatch(str(error))):
        return [f"metadata.namespace: there is no namespace {missing[1]!r}; create it first"]
    causes: list[Json] = error.status.details.get("causes") or []
    if not isinstance(error, Invalid) or not causes:
        return [str(error)]
    return list(dict.fromkeys(_sentences(causes)))


async def unserved_version(
    client: Client, resource: Resource[Any], manifest: Json, error: StatusError
) -> str:
    """Return what is wrong with the `apiVersion` if the server has no such path; else empty."""
    if not isinstance(error, PathNotFound):
        return ""
    try:
        group: Json = await client.request_json("GET", f"/apis/{resource.group}")
        versions = [str(each["groupVersion"]) for each in group.get("versions") or ()]
    except KubeError:
        versions = []
    given = str(manifest.get("apiVersion"))
    if given in versions:
        return f"apiVersion: {given} has no {resource.kind}; install its definition (manta crds)"
    if not versions:
        return (
            f"apiVersion: {resource.group} is not served; install the definitions ({INSTALL_CRDS})"
        )
    usual = resource.api_version if resource.api_version in versions else versions[0]
    return f"apiVersion: {given} is not served; use {usual}"


def _odd_field(path: str, schema: ObjectSchema | None, what: str) -> str:
    if what == "duplicate":
        return f"{path}: is given twice; keep one of the two"
    near = schema.nearest(path) if schema is not None else ""
    return f"{path}: is unknown{f' (did you mean {near}?)' if near else ''}; correct or remove it"


def _sentences(causes: list[Json]) -> Iterator[str]:
    for cause in causes:
        field, message = str(cause.get("field", "")), str(cause.get("message", ""))
        if field != "<nil>":  # what the server has not judged
            yield f"{field}: {_in_words(message)}"


def _in_words(message: str) -> str:
    if message.startswith("Required value"):
        return "must be set"
    if found := _WRONG_TYPE.search(message):
        quoted = "; put it in quotes" if found[1] == "string" else ""
        return f"must be {_with_article(found[1])} and is {_with_article(found[2])}{quoted}"
    if found := _NO_CHOICE.search(message):
        known = re.findall(r'"([^"]*)"', found[3])
        near = get_close_matches(found[2], known, n=1)
        return f"{found[2]!r} is none of {', '.join(known)}" + (
            f"; did you mean {near[0]}?" if near else ""
        )
    if found := _DUPLICATE.search(message):
        return f"{found[1]} is given twice; give each its own"
    if found := _PATTERN.search(message):
        return f"must match {found[1]}"
    return _INVALID.sub("", message, count=1)


def _with_article(kind: str) -> str:
    kinds = kind.replace(",", " or ")
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kinds}"
