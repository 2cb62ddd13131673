"""Views of objects that node components read and write."""
