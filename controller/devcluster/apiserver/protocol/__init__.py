"""The protocol of the API: paths, representations of bodies, and errors."""
