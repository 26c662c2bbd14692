"""Tests of C{saltwisted.cluster}: links, joining, and real nodes on loopback."""
