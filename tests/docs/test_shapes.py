"""No two places in the product share six or more lines of the same shape.

What is only declared may look alike: imports, signatures, fields and other assignments of a class,
a constructor or a module, argument lists, texts, and rows of tables.
"""

from __future__ import annotations

import pytest

from tests.docs.shapes import repetitions
from tests.docs.test_unused import product

SUM = """
def total(orders, limit):
    found = []
    for each in orders:
        if each.price > limit:
            continue
        found.append(each.price)
    return sum(found)
"""
RENAMED = """
class Gate:
    def wait(self, guests):
        '''Say who may come in.'''
        names = []
        for guest in guests:
            if guest.age > of.age:
                continue
            names.append(guest.name)
        return sorted(names)
"""


@pytest.mark.slow
def test_no_two_places_in_the_product_have_the_same_shape():
    assert repetitions(product()) == []


def places(*modules: str) -> list[tuple[int, str, str]]:
    found = repetitions({chr(ord("a") + n): text for n, text in enumerate(modules)})
    return [(each.size, each.one, each.other) for each in found]


def test_a_renamed_copy_in_another_module_is_found():
    assert places(SUM.replace("> limit", "> limit.price"), RENAMED) == [(6, "a:3-8", "b:5-10")]
    assert places(SUM, RENAMED) == []


def test_a_copy_in_the_same_module_is_found():
    assert places(SUM + SUM) == [(6, "a:3-8", "a:11-16")]


def test_a_part_of_a_longer_function_is_found_in_another_depth():
    inner = "".join(f"    {line}\n" for line in SUM.splitlines()[2:])
    longer = f"def run(jobs, most):\n    start()\n    with most:\n{inner}    end()\n"
    assert places(SUM, longer) == [(6, "a:3-8", "b:4-9")]


def test_five_lines_and_two_long_statements_may_be_alike():
    assert places(*[SUM.replace("    return sum(found)\n", "")] * 2) == []
    terms = "".join(f"        a + {n},\n" for n in range(9))
    call = f"def f(a):\n    x = g(\n{terms}    )\n    return x(a)\n"
    assert places(call, call) == []
    assert places(*[call.replace("    return", "    x()\n    return")] * 2) != []


def test_declarations_and_texts_may_be_alike():
    fields = "class A:\n" + "".join(f"    x{n}: int = g({n} + 1)\n" for n in range(9))
    constructor = "class A:\n    def __init__(self, x):\n" + "        self.x = x + 1\n" * 9
    rows = "def add(p):\n" + "".join(f"    p.add('--{n}', help='x')\n" for n in range(9))
    cases = "".join(f"        case {n}:\n            return 'x'\n" for n in range(9))
    table = f"def f(x):\n    match x:\n{cases}"
    text = "def f(x):\n    if x:\n        y()\n    return (\n" + "        'x'\n" * 9 + "    )\n"
    for each in (fields, constructor, rows, table, text):
        assert places(each, each) == []
