"""What tests of a kind need, without sockets, containers and waiting.

`cluster` is an API server in virtual time with operators in it, `faults` loses and delays what
passes between the two, `reads` is a cache of plain values, `virtual_time` the event loop, and
`plugin` offers them to pytest. docs/adding-a-kind.md shows a test.
"""
