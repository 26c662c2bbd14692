"""
Minions that join by a token, and those that used a token that had been used too often.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen
from twisted.logger import Logger

from saltwisted.domain.replica.keyset import KIND as KEYS
from saltwisted.domain.replica.keyset import finger_of
from saltwisted.domain.replica.tokens import MINION, Tokens, minion_use
from saltwisted.interfaces import IVoucher
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.wire.commands import Auth


@frozen(kw_only=True)
class MinionTokens:
    """
    Accepts minions by tokens, each as often as its terms allow, counted over all members.

    @ivar append: C{append(kind, body)} of the fact log.
    @ivar is_revoked: whether a revocation of a minion's key is known, by id and fingerprint.
    @ivar deny_minion: the act that denies an accepted key, by minion id and the beginning of its
        fingerprint; C{None} if an operator has decided about it.
    """

    log = Logger()

    tokens: Tokens
    append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    is_revoked: Callable[[str, str], bool]
    deny_minion: Callable[[str, str], Mapping[str, Any] | None]
    now: Callable[[], float]

    def pre_accepted(self, auth: Auth) -> bool:
        """
        Whether a minion has shown a token that lets it in, or one for its id is live; uses it once.

        The use is counted here at once, and on the other members when it has reached them.
        """
        tokens, now = self.tokens, self.now()
        finger = finger_of(auth.pub.encode("utf-8", "surrogateescape"))
        token_id = ""
        if len(auth.join) == 2:
            shown, mac = (str(each)[:64] for each in auth.join)
            if tokens.proven_by_minion(shown, mac, auth.id, auth.pub, auth.nonce, finger, now):
                token_id = shown
            elif shown in tokens.registers:
                # Of an unknown one nothing is said: strangers could fill the log
                self.log.warn(
                    "{minion} presented a token that was refused: {why}",
                    minion=auth.id,
                    why=tokens.why_not(shown, now)
                    or ("it is for other ids, or its secret was not proven"),
                )
        token_id = token_id or tokens.for_minion(auth.id, finger, now)
        if not token_id:
            return False
        use = minion_use(auth.id, finger)
        if use in tokens.registers[token_id].used:
            # Accepted once by it; if somebody has revoked the key since, that holds
            return not self.is_revoked(auth.id, finger)
        body = {"op": "use", "id": token_id, "key": use}
        let_go(as_deferred(self.append("token", body)), self.log, "a token's use was not kept")
        self.log.info("{minion} is accepted by token {id}", minion=auth.id, id=token_id[:12])
        return True

    def deny_overused(self) -> None:
        """A minion's acceptance may arrive after the use of its token."""
        for token_id, use in self.tokens.overused(MINION):
            start, _, minion_id = use.partition("/")
            act = self.deny_minion(minion_id, start)
            if act is not None:
                self.log.error(
                    "{minion} was accepted by token {id}, which had been used up elsewhere: "
                    "its key is denied until somebody accepts it",
                    minion=minion_id,
                    id=token_id[:12],
                )
                let_go(as_deferred(self.append(KEYS, act)), self.log, "no denial")


_MinionTokens: type[IVoucher] = MinionTokens  # mypy compares them
