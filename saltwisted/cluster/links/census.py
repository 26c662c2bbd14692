"""
What a member tells the holder of a token who wants to know what would differ after a join.

It contains nothing that a join would not reveal: digests of keys and files, and the text of the
options that should be equal (L{saltwisted.domain.merge}).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define
from twisted.internet.task import deferLater

from saltwisted.config.secrets import compared
from saltwisted.domain.merge import DIGEST_BYTES, STATES, key_digest
from saltwisted.domain.replica.settings import texts_of
from saltwisted.domain.roots.entry import DIR
from saltwisted.domain.roots.manifest import Generation
from saltwisted.interfaces import IKeyStore

SLICE = 200
MOST = 60_000
"""Keys and files that are told, so that the answer has room; C{cut} says when there are more."""


@define
class CensusTaker:
    """
    @ivar clock: the reactor.
    @ivar shares: C{shares()}: name to the generation that is served.
    @ivar option: C{option(name)}: a value of the configuration.
    """

    clock: Any
    keys: IKeyStore
    shares: Callable[[], Mapping[str, Generation]]
    option: Callable[[str], Any]

    async def take(self) -> dict[str, Any]:
        """Take the census of this node, without blocking the reactor."""
        count = 0
        keys: dict[str, dict[str, bytes]] = {}
        listed = self.keys.list_keys()
        for state in STATES:
            found = keys.setdefault(state, {})
            for name in listed.get(state, ()):
                count += 1
                if count > MOST:
                    break
                if count % SLICE == 0:
                    await deferLater(self.clock, 0)
                pub = self.keys.key(state, name)
                if pub is not None:
                    found[name] = key_digest(pub)
        files: dict[str, dict[str, bytes]] = {}
        for share, generation in self.shares().items():
            told = files.setdefault(share, {})
            for path, entry in generation.walk():
                if entry.kind == DIR:
                    continue
                count += 1
                if count > MOST:
                    break
                if count % SLICE == 0:
                    await deferLater(self.clock, 0)
                told[path.decode("utf-8", "backslashreplace")] = entry.content[:DIGEST_BYTES]
        return {
            "keys": keys,
            "files": files,
            "options": texts_of(self.option, compared),
            "cut": count > MOST,
        }
