"""Parameters of list, watch and deletecollection, with the combinations that upstream refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.options.query import flag, number, revision
from controller.devcluster.apiserver.options.selectors import (
    parse_label_selector,
    split_field_selector,
)
from controller.devcluster.apiserver.protocol.status import (
    ResourceName,
    StatusCause,
    forbidden_field,
    invalid,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_MATCH = "resourceVersionMatch"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Parameters of list, watch and deletecollection.

    Attributes:
        since: `resourceVersion` as it came, empty for unset.
        match: `resourceVersionMatch`, empty for unset.
        limit: page size, 0 for none.
        continue_token: token of the next page.
        watch: whether a stream is requested.
        bookmarks: whether the stream has bookmarks.
        initial_events: `sendInitialEvents`, None for unset.
        timeout: seconds after which a watch ends, None for the server's choice.
    """

    since: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> ListOptions:
        """Read the parameters and refuse contradictory combinations.

        Selectors are only checked, because the selectable fields depend on the resource.

        Raises:
            ApiError: 400 or 422.
        """
        options = cls(
            since=query.get("resourceVersion", ""),
            match=query.get(_MATCH, ""),
            limit=number(query, "limit") or 0,
            continue_token=query.get("continue", ""),
            watch=bool(flag(query, "watch")),
            bookmarks=bool(flag(query, "allowWatchBookmarks")),
            initial_events=flag(query, "sendInitialEvents"),
            timeout=number(query, "timeoutSeconds"),
        )
        parse_label_selector(query.get("labelSelector", ""))
        split_field_selector(query.get("fieldSelector", ""))
        causes = options._watch_causes() if options.watch else options._list_causes()
        if causes:
            raise invalid(ResourceName("meta.k8s.io", "", "ListOptions"), "", causes)
        return options

    @property
    def revision(self) -> int | None:
        """`resourceVersion` as a number, None for unset.

        Raises:
            ApiError: 400, or 500 for a watch: it is no revision.
        """
        return revision({"resourceVersion": self.since, "watch": str(self.watch)})

    def _list_causes(self) -> list[StatusCause]:
        causes: list[StatusCause] = []
        if self.initial_events is not None:
            causes.append(
                forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
            )
        if not self.match:
            return causes
        if not self.since:
            causes.append(_forbidden_match("unless resourceVersion is provided"))
        if self.continue_token:
            causes.append(_forbidden_match("when continue is provided"))
        if self.match not in {"Exact", "NotOlderThan"}:
            causes.append(_unsupported_match(self.match, '"Exact", "NotOlderThan", ""'))
        if self.match == "Exact" and self.since == "0":
            causes.append(
                forbidden_field(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"')
            )
        return causes

    def _watch_causes(self) -> list[StatusCause]:
        if self.initial_events is None:
            if self.match:
                return [_forbidden_match("for watch unless sendInitialEvents is provided")]
            return []
        causes: list[StatusCause] = []
        if self.match != "NotOlderThan":
            causes.append(
                forbidden_field(
                    _MATCH, f"sendInitialEvents requires setting {_MATCH} to NotOlderThan"
                )
            )
            if self.match:
                causes.append(_unsupported_match(self.match, '"NotOlderThan"'))
        if self.continue_token:
            causes.append(_forbidden_match("when continue is provided"))
        return causes


def _forbidden_match(where: str) -> StatusCause:
    return forbidden_field(_MATCH, f"{_MATCH} is forbidden {where}")


def _unsupported_match(match: str, choices: str) -> StatusCause:
    return StatusCause(
        "FieldValueNotSupported",
        _MATCH,
        f'Unsupported value: "{match}": supported values: {choices}',
    )
