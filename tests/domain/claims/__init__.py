"""Tests of L{saltwisted.domain.claims}."""
