"""The controller runtime: observes, plans and executes, on reads that include its own writes.

It knows no kind. A kind implements `kind.Kind`; `operator.Operator` puts everything together. The
public modules, the only ones that other packages import (`make lint` checks it):

- `reconcile.kind`, `reconcile.plan`: the interface of a kind, and the values that it returns.
- `reconcile.finalizers`: patches that add and remove a finalizer.
- `reconcile.external`: the interface of a system besides the API server.
- `leaderelection.election`: the interfaces of an election and of the fence before each write.
- `leaderelection`: a lease, and a candidate for it on a thread of its own.
- `debug`: sections of the debug page, and its shape.
- `collectors`: bases of Prometheus collectors that are computed from current state.
- `operator`, `settings`, `logs`: for the command that starts a process.

They are modules rather than names of this package because their costs differ: a kind needs no
more than `kind` and `plan`, `operator` loads aiohttp and the Prometheus client.
"""
