"""
The same world as L{tests.sim.cluster}, in which users log in and out as well.

What must hold at the end: all nodes know the same tokens; one whose deletion is known is
dead everywhere, and one that nobody has deleted is good everywhere.

C{python -m tests.sim.logins --seeds 1000 [--first N]} plays many.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random
from typing import Any

from saltwisted.domain.eauth import Token
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.keyset import KeySet
from saltwisted.domain.replica.logins import KIND, LoginTokens, delete_body, make_body
from tests.sim.cluster import NOW, Broken, SimNode, World
from tests.sim.play import play


class LoginWorld(World):
    """
    A cluster with logins.

    @ivar made: tokens by digest, with the places where their making is known to be.
    @ivar ended: the same of their deletions.
    """

    def __init__(self, seed: int, *args: Any, **more: Any) -> None:
        super().__init__(seed, *args, **more)
        self.users = Random(seed + 1)
        self.logins: dict[str, LoginTokens] = {}
        self.made: dict[str, set[Any]] = {}
        self.ended: dict[str, set[Any]] = {}
        self.digests: list[str] = []

    def make_folds(self, node: SimNode) -> Folds:
        """What the log of one life adds up to, with one kind more."""
        node.keys = KeySet()
        fold = self.logins[node.name] = LoginTokens()
        return Folds([node.keys, fold])

    def _stored(self, entries: Sequence[Entry]) -> None:
        super()._stored(entries)
        for entry in entries:
            if entry.kind == KIND:
                fields = entry.fields()
                kept = self.made if fields["op"] == "make" else self.ended
                kept.setdefault(str(fields["id"]), set()).add((entry.stream, entry.number))

    def run(self) -> None:
        """Play it, with some dozen logins and logouts anywhere."""
        for _ in range(self.users.randint(4, 30)):
            self.clock.callLater(self.users.uniform(0, 60), self.visit)
        super().run()

    def visit(self) -> None:
        """Somebody logs in, or out, at some node."""
        awake = [node for node in self.nodes if node.alive and not node.frozen]
        if not awake:
            return
        node = self.users.choice(awake)
        live = [d for d, s in self.logins[node.name].registers.items() if s.token is not None]
        if live and self.users.random() < 0.5:
            digest = self.users.choice(sorted(live))
            body = delete_body(digest)
            self.tell(f"{node.name}: logout {digest[:4]}")
        else:
            digest = self.users.randbytes(32).hex()
            token = Token(name="fred", eauth="pam", start=NOW, expire=NOW * 2)
            body = make_body(digest, token)
            self.digests.append(digest)
            self.tell(f"{node.name}: login {digest[:4]}")
        node.log.append(KIND, body).addErrback(lambda failure: None)

    def check(self) -> None:
        """The promises, those about keys as well."""
        super().check()
        first = self.logins[self.nodes[0].name].registers
        known = self.nodes[0].log.knowledge()

        def knows(places: set[Any]) -> bool:
            return any(known.get(stream, 0) >= number for stream, number in places)

        for node in self.nodes:
            live = {d: s for d, s in self.logins[node.name].registers.items() if s.token}
            if live != {d: s for d, s in first.items() if s.token}:
                self.broken(f"{node.name} and {self.nodes[0].name} hold different tokens")
        for digest in self.digests:
            state = first.get(digest)
            good = state is not None and state.token is not None
            ended = knows(self.ended.get(digest, set()))
            made = knows(self.made.get(digest, set()))
            if good and ended and not self.set_backs:
                self.broken(f"the token {digest[:4]} is good, though it was deleted")
            if made and not good and not ended and not self.set_backs:
                self.broken(f"the token {digest[:4]} was lost: {state}")


def _counts(world: LoginWorld) -> dict[str, int]:
    return {
        "tokens": len(world.digests),
        "deleted": len(world.ended),
        "messages": world.messages,
    }


if __name__ == "__main__":
    sys.exit(play("tests.sim.logins", LoginWorld, Broken, _counts))
