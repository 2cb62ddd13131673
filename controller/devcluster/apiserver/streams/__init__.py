"""Connections that are no single request and response: WebSockets, SPDY, port forwarding."""
