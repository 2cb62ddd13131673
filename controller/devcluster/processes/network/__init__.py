"""The network between pods: names and addresses of services, and the API server's proxies."""
