"""From events to the handlers of changes: the processor of the store, queues, and resyncs."""
