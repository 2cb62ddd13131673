"""The controller runtime: observes, plans and executes, on reads that include its own writes.

It knows no kind. A kind is a subclass of `kind.Kind`; `operator.Operator` puts everything together.
The public modules, the only ones that other packages import (`make lint` checks it):

- `kind`, `plan`: the base class of kinds, and the values that they return.
- `children`: an object with its children, and the plan that makes these what is wanted.
- `reasons`: why something is not as it should be, and what to do about it.
- `status`: patches that are sent before their effects.
- `definitions`: what an installed definition lacks of the fields that a kind needs.
- `election`, `elector`: who may write, and a candidate for that with its Lease.
- `debug`: the debug page.
- `metrics`: bases of Prometheus collectors that are computed from current state.
- `operator`, `settings`: for the command that starts a process; `settings` has its log too.

They are modules rather than names of this package because their costs differ: a kind needs no
more than `kind` and `plan`, `operator` loads aiohttp and the Prometheus client.
"""
