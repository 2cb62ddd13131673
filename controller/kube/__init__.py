"""Access to Kubernetes: credentials, transports, the client, typed views and errors.

Import from the modules: `client.Client` is the face of the package, `errors` its exceptions,
`resources` and `objects` what is read, `transport.Transport` the seam that tests and faults use.
"""
