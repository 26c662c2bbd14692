"""
What the HTTP API says and understands, apart from HTTP itself: bodies, chunks of low state, answers.
"""
