"""The differences that are known and meant: each with its reason, and only where it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.devcluster.fidelity.run import Seen
from tests.devcluster.fidelity.steps import Step


class Known(Struct, frozen=True):
    """One known difference.

    Attributes:
        reason: why the embedded server differs.
        holds: whether this is it: the request, the embedded answer, the real answer.
    """

    name: str
    reason: str
    holds: Callable[[Step, Seen, Seen], bool]


MALFORMED_TOKENS = ("nonsense", "<continue>")
MALFORMED_SELECTORS = ("a b=c", "app in x", "app=x,", "=x")
PARSER_WORDS = (
    "json parse error",
    "yaml: ",
    "error decoding patch",
    "error decoding YAML",
    "unexpected end of JSON input",
    "cannot unmarshal",
    "invalid continue token",
    "invalid character",
    "unable to parse requirement",
    "found '",
)


def _alike_but_message(embedded: Seen, real: Seen) -> bool:
    """Both refused in the same way, in other words."""
    one, other = _body(embedded), _body(real)
    return (
        embedded.status == real.status >= 400
        and embedded.headers == real.headers
        and {**one, "message": ""} == {**other, "message": ""}
    )


def _body(seen: Seen) -> dict[str, Any]:
    return seen.body if isinstance(seen.body, dict) else {"text": seen.body}


def _message(seen: Seen) -> str:
    return str(_body(seen).get("message", ""))


def _is_parsers_wording(step: Step, embedded: Seen, real: Seen) -> bool:
    not_a_list = "json-patch" in step.headers.get("Content-Type", "") and isinstance(
        step.body, dict
    )
    malformed = (
        isinstance(step.body, str)
        or not_a_list
        or step.query.get("continue") in MALFORMED_TOKENS
        or step.query.get("labelSelector") in MALFORMED_SELECTORS
    )
    said = any(words in _message(real) for words in PARSER_WORDS)
    return malformed and said and _alike_but_message(embedded, real)


def _is_pod_diff(step: Step, embedded: Seen, real: Seen) -> bool:
    shown = _message(embedded)
    return (
        "/pods/" in step.path
        and "pod updates may not change fields" in shown
        and _message(real).startswith(shown.rstrip("]"))
        and embedded.status == real.status == 422
    )


def _is_wide_or_described_column(step: Step, embedded: Seen, real: Seen) -> bool:
    return (
        "as=Table" in step.headers.get("Accept", "")
        and _narrow(embedded.body) == _narrow(real.body)
        and _narrowed(embedded.events) == _narrowed(real.events)
    )


def _narrowed(events: Any) -> list[Any]:
    """The tables of a watch; only the first of them says which columns are wide."""
    found, columns = [], []
    for event in events or ():
        table = event.get("object") if isinstance(event, dict) else None
        if not isinstance(table, dict) or table.get("kind") != "Table":
            found.append(event)
            continue
        columns = table.get("columnDefinitions") or columns
        shown = bool(table.get("columnDefinitions"))
        narrow = _narrow({**table, "columnDefinitions": columns})
        found.append({**event, "object": narrow if shown else {**narrow, "columnDefinitions": []}})
    return found


def _narrow(table: Any) -> Any:
    """A table without descriptions, and without the columns of `kubectl get -o wide`."""
    if not isinstance(table, dict) or not table.get("columnDefinitions"):
        return table
    columns = table["columnDefinitions"]
    kept = [index for index, column in enumerate(columns) if not column["priority"]]
    return {
        **table,
        "columnDefinitions": [{**columns[index], "description": ""} for index in kept],
        "rows": [
            {**row, "cells": [row["cells"][index] for index in kept]}
            for row in table.get("rows") or ()
        ],
    }


def _is_contradiction(step: Step, embedded: Seen, real: Seen) -> bool:
    return (
        bool({"resourceVersionMatch", "sendInitialEvents"} & step.query.keys())
        and "does not go with the other parameters" in _message(embedded)
        and embedded.status == real.status == 422
    )


def _is_list_of_forms(step: Step, embedded: Seen, real: Seen) -> bool:
    return step.headers.get("Accept") == "text/html" and embedded.status == real.status == 406


def _is_list_not_older(step: Step, embedded: Seen, real: Seen) -> bool:
    query = step.query
    if "resourceVersion" not in query or query.get("resourceVersionMatch") == "Exact":
        return False
    one, other = _body(embedded), _body(real)
    return embedded.status == real.status == 200 and {**one, "metadata": 0} == {
        **other,
        "metadata": 0,
    }


def _is_open_page(step: Step, embedded: Seen, real: Seen) -> bool:
    one, other = _body(embedded), _body(real)
    selects = {"labelSelector", "fieldSelector"} & step.query.keys()
    return bool(
        selects
        and "limit" in step.query
        and embedded.status == real.status == 200
        and "continue" in other["metadata"]
        and {**one, "metadata": 0} == {**other, "metadata": 0}
    )


def _is_status_of_another(step: Step, embedded: Seen, real: Seen) -> bool:
    return (
        step.path.endswith("/status")
        and "/pods/" in step.path
        and embedded.status == real.status == 422
        and "metadata.deletionTimestamp" in _message(embedded)
        and "metadata.deletionGracePeriodSeconds" in _message(real)
    )


def _is_status_path(step: Step, embedded: Seen, real: Seen) -> bool:
    return (
        step.path.endswith("/status")
        and embedded.status == real.status == 422
        and json.dumps(embedded.body).replace(" status.", " ").replace("[status.", "[")
        == json.dumps(real.body).replace(" status.", " ").replace("[status.", "[")
    )


def _is_type_name(_: Step, embedded: Seen, real: Seen) -> bool:
    """`of type v1.PodPhase` instead of `of type string`."""
    one, other = _message(embedded).rpartition(" of type "), _message(real).rpartition(" of type ")
    return bool(one[1]) and one[0] == other[0] and _alike_but_message(embedded, real)


def _is_go_structure(_: Step, embedded: Seen, real: Seen) -> bool:
    """`Invalid value: {...}: field is immutable` for parts of a pod template."""
    shown = re.compile(r"Invalid value: \{.*?\}: (?=field is immutable|`)")
    one, other = json.dumps(embedded.body), json.dumps(real.body)
    return (
        embedded.status == real.status == 422
        and '\\"Volumes\\":' in other
        and shown.sub("", one) == shown.sub("", other)
    )


def _is_fractional(step: Step, embedded: Seen, real: Seen) -> bool:
    """A value of the wrong type in a field that takes integers, or integers and text."""
    sent = json.dumps(step.body)
    return (
        embedded.status == real.status == 422
        and ("1.5" in sent or "true" in sent)
        and "Invalid value" in _message(embedded)
        and _message(embedded).partition("[")[0] == _message(real).partition("[")[0]
    )


def _is_misfit(_: Step, embedded: Seen, real: Seen) -> bool:
    start = "failed to create typed patch object ("
    return (
        embedded.status == real.status == 500
        and _message(embedded).startswith(start)
        and _message(real).partition(": ")[0] == _message(embedded).partition(": ")[0]
    )


def _is_quoted_object(step: Step, embedded: Seen, real: Seen) -> bool:
    start = ' "" is invalid: patch: Invalid value: "'
    return (
        step.method == "PATCH"
        and embedded.status == real.status == 422
        and _message(embedded).startswith(start)
        and _message(real).startswith(start)
    )


KNOWN = (
    Known(
        "parsers' wording",
        "what exactly is wrong with malformed JSON, YAML or base64 is said in Go's words upstream",
        _is_parsers_wording,
    ),
    Known(
        "diff of pods",
        "upstream appends a diff of its internal structures to the error about a changed pod",
        _is_pod_diff,
    ),
    Known(
        "descriptions of columns, and wide ones",
        "columns have no description here, which kubectl does not show, and few are wide",
        _is_wide_or_described_column,
    ),
    Known(
        "Go structures",
        "what may not change is quoted as Go's internal structures by upstream",
        _is_go_structure,
    ),
    Known(
        "lists not older than a revision",
        "upstream may answer as of that revision, from its cache; here the newest is at hand",
        _is_list_not_older,
    ),
    Known(
        "open pages",
        "a page of selected objects goes on upstream even if no more of them follow",
        _is_open_page,
    ),
    Known(
        "status of another pod",
        "upstream overlooks a deletionTimestamp in the status of a pod that is another by now",
        _is_status_of_another,
    ),
    Known(
        "numbers that are no integers",
        "of a fraction or a boolean where an integer is due upstream speaks in Go's type names",
        _is_fractional,
    ),
    Known(
        "configurations that do not fit",
        "what server-side apply finds wrong with types is said in its library's words upstream",
        _is_misfit,
    ),
    Known(
        "paths below the status",
        "of a status alone upstream names what is wrong by paths that begin below it",
        _is_status_path,
    ),
    Known(
        "names of Go types",
        "errors about JSON types name the Go types of a few string fields upstream",
        _is_type_name,
    ),
    Known(
        "quoted object",
        "errors about what a patch makes quote the whole object or patch as Go prints it",
        _is_quoted_object,
    ),
    Known(
        "parameters of lists that contradict each other",
        "upstream says which of them, and how; no client sends them",
        _is_contradiction,
    ),
    Known(
        "list of representations",
        "406 lists the forms that a server has, and this one has fewer",
        _is_list_of_forms,
    ),
)
