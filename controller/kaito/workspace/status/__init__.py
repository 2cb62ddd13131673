"""The status of a Workspace: conditions and state, with Kaito's types, reasons and messages."""
