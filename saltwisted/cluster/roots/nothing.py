"""
A replacement for nodes on which git serves no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from saltwisted.errors import NotKept


class NoCommits:
    """Git serves no files."""

    digest = b""

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """Nothing is forgotten."""

    def read(self) -> set[bytes]:
        """Nothing."""
        return set()

    def has(self, digest: bytes) -> bool:
        """Nothing is known."""
        return False

    def over(self, digest: bytes) -> None:
        """Nothing is known."""

    def told(self, digest: bytes) -> Mapping[str, Mapping[str, str]]:
        """Nothing is known."""
        return {}

    async def bring(self, digest: bytes, node: str) -> bool:
        """No configuration says where to get them."""
        return False

    async def find(self, wanted: str) -> bytes:
        """@raises NotKept: always."""
        raise NotKept(f"generation {wanted!r}: git serves no files here")

    async def roll_back(self, wanted: str, dry_run: bool = False) -> list[dict[str, Any]]:
        """@raises NotKept: always."""
        raise NotKept(f"generation {wanted!r}: git serves no files here")

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """There are none."""
        return []
