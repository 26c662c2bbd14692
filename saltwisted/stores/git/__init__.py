"""
Trees of commits, as the file server reads them.
"""
