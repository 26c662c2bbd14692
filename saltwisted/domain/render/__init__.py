"""
Templates and data files to plain values: the renderer pipe.
"""
