"""The names of pytriton.models."""
