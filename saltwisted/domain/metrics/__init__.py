"""
What is measured, and the names under which it is exported.
"""
