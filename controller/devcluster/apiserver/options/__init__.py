"""Parameters of requests: of lists, of writes and of deletions, and selectors."""
