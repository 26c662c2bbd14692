"""The HTTP API: its parts, and as clients see it."""
