"""The EndpointSlices of Services."""
