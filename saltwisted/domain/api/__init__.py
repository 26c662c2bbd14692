"""
What the HTTP API says and understands, apart from HTTP itself: bodies, low state, answers.
"""
