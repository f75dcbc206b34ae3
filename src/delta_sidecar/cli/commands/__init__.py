"""The commands, those that change together in one module."""
