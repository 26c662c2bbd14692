"""C{salt.version}: which Salt this is like."""

from __future__ import annotations

__version__ = "3008.5"
__saltstack_version__ = __version__
__version_info__ = (3008, 5)
