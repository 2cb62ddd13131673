"""A program that stands in for a model server, where neither GPUs nor weights are at hand."""
