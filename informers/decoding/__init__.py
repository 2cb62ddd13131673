"""From bytes to typed objects: lines, JSON, the codec, and what it does with odd objects."""
