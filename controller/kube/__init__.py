"""Access to Kubernetes: credentials, transports, a client, typed views and errors.

The public modules, the only ones that other packages import (`make lint` checks it):

- `client`: the verbs of the API, typed by resource.
- `resources`, `objects`, `errors`: what is read, its typed views, and the exceptions.
- `transport`: requests, responses, and the seam to a server, which tests replace; `http`
  implements it, and imports aiohttp for dashboards too.
- `credentials`: the interface, and those of a pod; `kubeconfig` finds those of the process.
- `source`: lists and watches for informers, and which optional APIs a server has.

They are modules rather than names of this package because their costs differ by two orders of
magnitude. Most importers need types only; `http` loads aiohttp, and exec plugins of a kubeconfig
are run by kubernetes_asyncio, which costs 35 MiB and is loaded for nothing else. Module names also
keep general words apart: `objects.Job` is the Job of Kubernetes, `resources.JOBS` its resource.
"""
