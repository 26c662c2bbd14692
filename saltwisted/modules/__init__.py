"""
Execution modules with Salt's names, signatures and return shapes.
"""
