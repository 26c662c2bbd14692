"""
C{__utils__}: what custom modules call of Salt's helpers, under Salt's names.
"""
