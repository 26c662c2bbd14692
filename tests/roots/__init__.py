"""Replicated roots: the pure core, the stores, the exchange, and real processes."""
