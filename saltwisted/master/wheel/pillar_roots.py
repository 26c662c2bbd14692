"""
The C{pillar_roots} wheel functions: the files below the directories of that option.
"""

from __future__ import annotations

from saltwisted.master.wheel._roots import functions

FUNCTIONS = functions("pillar_roots", 0o600)
