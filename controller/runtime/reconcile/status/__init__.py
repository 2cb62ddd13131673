"""The status of an object, and the decision whether it is written."""
