"""
What the loader puts into a module, for what the module imports.

Nothing is injected into what is imported. A module that wants something done there hands on its
globals: the loader fills them after the module was executed.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen(eq=False)
class Injected:
    """
    The names of the loader, as a module has them.

    @ivar space: the module's globals.
    """

    space: dict[str, Any]

    @property
    def salt(self) -> Any:
        """C{__salt__}."""
        return self.space["__salt__"]

    @property
    def opts(self) -> Any:
        """C{__opts__}."""
        return self.space["__opts__"]

    @property
    def context(self) -> Any:
        """C{__context__}, which lasts as long as the job."""
        return self.space["__context__"]
