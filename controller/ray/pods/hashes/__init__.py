"""Hashes of templates and fields, by which outdated pods are recognised."""
