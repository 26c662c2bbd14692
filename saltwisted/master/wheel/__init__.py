"""
Wheel functions of the master, by Salt's names.
"""
