"""Helpers around the server process."""
