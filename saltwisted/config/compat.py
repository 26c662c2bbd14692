"""
The level of Salt that SLS trees see.

Grains C{saltversion} and C{saltversioninfo}, C{test.version} and everything else
that names a version of Salt to a template take it from here. Our own version is
L{saltwisted.__version__}.
"""

from __future__ import annotations

COMPAT_VERSION = (3008, 5)
"""What a template compares with."""

COMPAT_VERSION_TEXT = ".".join(str(part) for part in COMPAT_VERSION)
"""The same as Salt prints it."""
