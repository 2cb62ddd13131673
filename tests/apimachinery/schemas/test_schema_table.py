"""Schemas that are written as tables."""

from __future__ import annotations

import pytest

from controller.apimachinery.schema import SchemaTable

TABLE = """
# A comment.

port(whose): struct atomic | A port of
  | {whose}.
  ! self.number > 0 || self.name != '' | number or name
    | must be set
  number!: int32 minimum=1 with=small | Its number.
  name: string default=web enum=web,api

ports: list keys=number
  -: port(the head) | A port.
"""


def test_a_line_is_a_field_with_its_keywords_and_required_fields_are_sorted():
    schemas = SchemaTable(TABLE, {"small": {"maximum": 9}})
    assert schemas.schema("port", "the worker") == {
        "description": "A port of the worker.",
        "type": "object",
        "properties": {
            "number": {
                "description": "Its number.",
                "type": "integer",
                "format": "int32",
                "minimum": 1,
                "maximum": 9,
            },
            "name": {"type": "string", "default": "web", "enum": ["web", "api"]},
        },
        "required": ["number"],
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [
            {"rule": "self.number > 0 || self.name != ''", "message": "number or name must be set"}
        ],
    }


def test_a_schema_of_the_table_is_a_type_whose_description_can_be_replaced():
    schemas = SchemaTable(TABLE, {"small": {}})
    ports = schemas.schema("ports")
    assert ports["items"] == schemas.schema("port", "the head") | {"description": "A port."}
    assert ports["x-kubernetes-list-map-keys"] == ["number"]
    ports["items"]["properties"].clear()
    assert schemas.schema("ports")["items"]["properties"]


def test_a_line_that_is_no_field_and_a_type_that_does_not_exist_are_errors():
    with pytest.raises(ValueError, match="is no line of a table"):
        SchemaTable("port struct")
    with pytest.raises(KeyError, match="strnig"):
        SchemaTable("port: strnig").schema("port")
