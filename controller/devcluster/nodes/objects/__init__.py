"""Objects as node components read and write them."""
