"""The Jobs that tune models, and their options."""
