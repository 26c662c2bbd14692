"""Drivers of C{sdb://}: where its values are."""
