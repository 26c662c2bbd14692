"""
C{salt.utils}: those of its modules that are no part of C{__utils__} here.

The others are in L{saltwisted.utils}.
"""
