"""
What every part of a kind has to do, one mix-in for each kind; the real parts and the fakes run it.
"""
