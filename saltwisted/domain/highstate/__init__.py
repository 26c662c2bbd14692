"""
The state compiler: from top files and SLS data to an ordered list of calls, and their verdicts.
"""
