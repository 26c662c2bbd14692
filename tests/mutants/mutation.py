"""
One mutation, and how it is applied.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from tests.harness import ROOT


class NotApplying(Exception):
    """A mutation, or a reason, no longer fits the source; the text says which, and why."""


@frozen(kw_only=True)
class Mutation:
    """
    One change of one file.

    @ivar name: what it is called on the command line and in C{reasons.py}; one that a person wrote
        begins with the ids of its threats.
    @ivar path: the file, below C{saltwisted/}.
    @ivar old: what is there, and C{new}: what is there instead.
    @ivar tests: what trial runs: modules, classes or methods.
    @ivar at: where C{old} begins, in bytes; -1: where it is, which has to be one place.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    at: int = -1

    def change(self, source: bytes) -> bytes:
        """
        The file with the mutation.

        @raises NotApplying: the old text is not there, or more than once.
        """
        old = self.old.encode()
        count = source.count(old)
        if self.at < 0 and count != 1:
            where = f"saltwisted/{self.path}"
            raise NotApplying(
                f"{self.name}: its old text is {count} times in {where}: {self.old!r}"
            )
        at = source.index(old) if self.at < 0 else self.at
        if source[at : at + len(old)] != old or self.old == self.new:
            raise NotApplying(f"{self.name}: it changes nothing")
        return source[:at] + self.new.encode() + source[at + len(old) :]


def source_of(path: str) -> bytes:
    """
    A file of C{saltwisted/}.

    @raises NotApplying: there is none.
    """
    try:
        return (Path(ROOT) / "saltwisted" / path).read_bytes()
    except OSError as error:
        raise NotApplying(f"saltwisted/{path}: {error.strerror}") from error
