"""
What the loader puts around a call of the module C{file}, handed on to its larger functions.

Those are in private modules, which are imported, not loaded: nothing is injected into them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen


@frozen(kw_only=True, eq=False)
class Around:
    """
    The surroundings of a call.

    @ivar salt: C{__salt__}.
    @ivar context: C{__context__}, which lasts as long as the job.
    """

    salt: Any
    opts: Mapping[str, Any] = field(repr=False)
    grains: Any = field(repr=False)
    pillar: Any = field(repr=False)
    context: dict[str, Any] = field(repr=False)

    @property
    def test(self) -> Any:
        """C{test}: changes are foretold, not made."""
        return self.opts["test"]

    @property
    def template_names(self) -> dict[str, Any]:
        """What every template finds."""
        return {
            "salt": self.salt,
            "pillar": self.pillar,
            "grains": self.grains,
            "opts": self.opts,
        }

    @property
    def hides_templates(self) -> bool:
        """Whether differences of rendered templates are not shown."""
        return bool(self.salt["config.option"]("obfuscate_templates"))


@frozen(kw_only=True)
class Lenience:
    """Differences of content that do not count as changes in earnest."""

    ignore_ordering: bool = False
    ignore_whitespace: bool = False
    ignore_comment_characters: Any = None

    def __bool__(self) -> bool:
        return bool(
            self.ignore_ordering or self.ignore_whitespace or self.ignore_comment_characters
        )

    @property
    def words(self) -> dict[str, Any]:
        """As arguments."""
        return {
            "ignore_ordering": self.ignore_ordering,
            "ignore_whitespace": self.ignore_whitespace,
            "ignore_comment_characters": self.ignore_comment_characters,
        }


@frozen(kw_only=True)
class SecurityContext:
    """The parts of an SELinux context that a path should have; C{None} is as it is."""

    seuser: str | None = None
    serole: str | None = None
    setype: str | None = None
    serange: str | None = None

    @property
    def parts(self) -> list[str | None]:
        """In the order in which the system writes them."""
        return [self.seuser, self.serole, self.setype, self.serange]

    def __bool__(self) -> bool:
        return any(self.parts)
