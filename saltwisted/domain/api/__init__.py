"""
What the HTTP API says and understands, independent of HTTP itself: bodies, low state, answers.
"""
