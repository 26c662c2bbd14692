"""
Logins: who proves by a password or a token to be a user of C{external_auth}.

Worker processes check passwords, one at a time for each user and source. Every refusal takes
equally long, whether the backend, the user or the password was wrong. L{saltwisted.domain.tries}
decides the order, and how long a refusal takes. Tokens are looked up by their digests.
L{saltwisted.domain.acl} decides what a user may do afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from attrs import evolve, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.config.logins import OPTIONS, settings, why_not
from saltwisted.domain.eauth import (
    Credentials,
    Token,
    credentials,
    lifetime,
    new_token,
    reasons,
    rules_of,
    shown_rules,
    token_digest,
)
from saltwisted.domain.operations.table import Admits, everybody
from saltwisted.domain.tries import Slowness, Tries, Try
from saltwisted.domain.who import Who
from saltwisted.errors import DeniedError, SaltwistedError
from saltwisted.interfaces import Entropy
from saltwisted.kinds import LOGINS
from saltwisted.master.bearers import Bearers
from saltwisted.master.groups import Groups
from saltwisted.master.workers import WorkerPool

ENTRY = "saltwisted.worker.process.authwork:serve"
NEAR_ENTRY = "saltwisted.worker.process.authwork:serve_near"
"""For callers on this machine: the network cannot fill these processes."""
LOOK_ENTRY = "saltwisted.worker.process.authwork:serve_look"
"""For what is asked without a password; who guesses passwords cannot fill it."""
NEAR = ("uid ", "runner ")
"""How a source begins that is a user of this machine and no address."""
PATIENCE = 60.0
"""Seconds that a backend may take; PAM may ask servers far away."""
PER_USER = 1000
"""Tokens that one user may have; a new one ends the oldest."""
NOTHING: Mapping[str, Any] = MappingProxyType({})
QUIET = 60.0
"""Seconds for which one line about refused logins in the log is enough."""


class NotProven(DeniedError):
    """
    The caller is not the user that the request names.

    @ivar kind: C{token} or C{eauth}.
    @ivar user: as the request names the user; C{UNKNOWN} as in Salt if it does not.
    @ivar unasked: whether no backend was asked, because too many attempts wait: it may be the user
        after all.
    """

    def __init__(self, kind: str, user: str, unasked: bool = False) -> None:
        super().__init__(f'Authentication failure of type "{kind}" occurred for user {user}.')
        self.kind = kind
        self.user = user
        self.unasked = unasked

    @property
    def name(self) -> str:
        """Salt's name of the error."""
        return f"{self.kind.capitalize()}AuthenticationError"


@frozen
class User:
    """
    A user whose identity is proven.

    @ivar eauth: the backend that has proven it.
    @ivar kind: by C{token} or C{eauth}.
    @ivar rules: what the user may do, as in C{external_auth}.
    """

    name: str
    eauth: str
    kind: str
    rules: Sequence[Any]

    @property
    def who(self) -> Who:
        """The user, to be compared with others."""
        return Who(self.name, self.eauth)

    def refused(self) -> NotProven:
        """The text for a refused request: the same as after a wrong login."""
        return NotProven(self.kind, self.name)


class Tokens(Protocol):
    """
    Where tokens are stored: a lone master's files, or the facts of a cluster.

    @ivar epoch: tokens of an earlier epoch are invalid.
    """

    @property
    def epoch(self) -> int: ...

    def now(self) -> float:
        """The latest time that is known: a clock that lags does not let tokens live longer."""
        ...

    async def fresh(self) -> None:
        """Returns when it is known which tokens were deleted, also by others."""

    def get(self, digest: str) -> Token | None: ...

    def items(self) -> Iterator[tuple[str, Token]]: ...

    async def put(self, digest: str, token: Token) -> None: ...

    async def drop(self, digest: str) -> bool: ...


@frozen
class Verdict:
    """
    The answer of a backend.

    @ivar began: when it was asked.
    @ivar name: as the backend spells it; C{""}: as it was typed.
    @ivar rules: what the backend grants, in addition to the options.
    @ivar until: when it expires; 0: it does not expire.
    @ivar unasked: no backend was asked: too many attempts wait.
    """

    ok: bool
    began: float
    groups: tuple[str, ...] = ()
    name: str = ""
    rules: tuple[Any, ...] = ()
    until: float = 0.0
    unasked: bool = False


class Logins:
    """
    Proofs of one master's users.

    @ivar tokens: where tokens are stored; a cluster provides its own.
    @ivar bearers: what is known about tokens of a provider, only on this node.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        config: Any,
        now: Callable[[], float],
        entropy: Entropy,
        workers: WorkerPool | None,
        tokens: Tokens,
        counters: Counter[str],
    ) -> None:
        """
        @param config: the master's options; read again each time, since a reload changes them.
        """
        self._clock = clock
        self._config = config
        self._now = now
        self._entropy = entropy
        self._workers = workers
        self.tokens = tokens
        self._counters = counters
        self._lines = {ENTRY: Tries(), NEAR_ENTRY: Tries()}
        self._turns: dict[str, dict[Try, Deferred[bool]]] = {ENTRY: {}, NEAR_ENTRY: {}}
        self._later: dict[str, Any] = {}
        self._slowness = Slowness()
        self._told: dict[str, float] = {}
        self._kept: dict[str, Any] = {}
        self.bearers = Bearers(lambda: self.tokens.now(), entropy)
        self._groups = Groups(clock, lambda: self.tokens.now(), self._look, self._gone, self.tell)

    # -- who is it

    async def prove(
        self, given: Mapping[str, Any], source: str, admits: Admits = everybody
    ) -> User:
        """
        Who sends a request, by its C{token}, or else by C{eauth}, C{username} and C{password}.

        @param source: where it comes from, to limit attempts: an address, or C{uid NUMBER} or
            C{runner of USER} of this machine.
        @param admits: whether somebody of the proven name may come from there.
        @raises NotProven: it is not a known user.
        """
        if "token" in given:
            token = await self.known(given["token"])
            if token is None or not admits(token.name):
                self._refuse("token", "", source)
                raise NotProven("token", "UNKNOWN")
            return User(token.name, token.eauth, "token", self.rules(token))
        asked, verdict = await self.login(given, source, admits)
        return User(asked.username, asked.eauth, "eauth", self._rules(asked, verdict))

    def token(self, token: Any) -> Token | None:
        """What a token stands for, if it is good and its backend is still one of ours."""
        digest = token_digest(token)
        found = (self.tokens.get(digest) or self.bearers.get(digest)) if digest else None
        if (
            found is None
            or not found.alive(self.tokens.now())
            or found.epoch != self.tokens.epoch
            or found.eauth not in self._config.external_auth
        ):
            return None
        return found

    async def known(self, word: Any) -> Token | None:
        """
        What a token stands for, if it is good, also by what other nodes know: its user, with the
        groups of now.
        """
        await self.tokens.fresh()
        token = self.token(word)
        return token and await self._as_now(token)

    def permissions(self, token: Token) -> Sequence[Any]:
        """The rules of a token's user, as a login by HTTP shows them."""
        if token.rules is not None and self._config.keep_acl_in_token:
            return token.rules
        external_auth = self._config.external_auth
        return shown_rules(external_auth, token.eauth, token.name, token.groups)

    def rules(self, token: Token) -> Sequence[Any]:
        """What decides what a token's user may."""
        if token.rules is not None and self._config.keep_acl_in_token:
            return token.rules
        config = self._config
        return rules_of(
            config.external_auth,
            token.eauth,
            token.name,
            token.groups,
            bool(config.permissive_acl),
        )

    async def _as_now(self, token: Token) -> Token | None:
        """A token with its user's groups of now; C{None} if there is no such user any more."""
        if token.eauth not in LOGINS.here or not OPTIONS.take(token.eauth).fresh:
            return token
        groups = await self._groups.of(token)
        if groups is None:
            return None
        # Rules that were kept were those of all groups of then
        rules = token.rules if set(token.groups) <= set(groups) else None
        return evolve(token, groups=groups, rules=rules)

    def _rules(self, asked: Credentials, verdict: Verdict) -> list[Any]:
        config = self._config
        return rules_of(
            config.external_auth,
            asked.eauth,
            asked.username,
            verdict.groups,
            bool(config.permissive_acl),
            verdict.rules,
        )

    async def login(
        self, given: Mapping[str, Any], source: str, admits: Admits = everybody
    ) -> tuple[Credentials, Verdict]:
        """
        Have a password checked.

        @param admits: as for L{prove}.
        @return: the user, under the name that the backend uses, and what the backend says about the
            user.
        @raises NotProven: after the time that every refusal takes.
        """
        name = str(given.get("username") or "")
        return await self.proven(credentials(given), name, source, admits)

    async def proven(
        self, asked: Credentials | None, name: str, source: str, admits: Admits = everybody
    ) -> tuple[Credentials, Verdict]:
        """
        The same for the fields of a request, if there are any.

        @return: the user, under the name that the backend uses, and what the backend says about the
            user.
        @raises NotProven: after the time that every refusal takes.
        @param name: of the user, for the record of a refusal.
        """
        verdict = Verdict(False, self._clock.seconds())
        if asked is not None and asked.eauth in self._config.external_auth:
            verdict = await self._judge_in_turn(asked, source, admits)
        if asked is not None and verdict.ok:
            self._counters["login:accepted"] += 1
            return evolve(asked, username=verdict.name or asked.username), verdict
        name = name[:64] or "UNKNOWN"
        self._refuse("eauth", name, source)
        # Only refused callers wait here, not those whose turn comes after
        now = self._clock.seconds()
        dice = int.from_bytes(self._entropy(4), "big") / 0xFFFFFFFF
        left = verdict.began + self._slowness.seconds(now, dice) - now
        if left > 0:
            await deferLater(self._clock, left)
        raise NotProven("eauth", name, verdict.unasked)

    async def _judge_in_turn(self, asked: Credentials, source: str, admits: Admits) -> Verdict:
        entry = NEAR_ENTRY if source.startswith(NEAR) else ENTRY
        line, turns = self._lines[entry], self._turns[entry]
        # To a directory fred and Fred are one user, who is guessed at no faster by two names
        user, now = asked.username.casefold(), self._clock.seconds()
        mine, out = line.offer(asked.eauth, user, source, now)
        turn = turns[mine] = Deferred()
        if out is not None:
            self._counters["login:too-many"] += 1
            turns.pop(out).callback(False)
        self._go_on(entry)
        try:
            if not await turn:
                return Verdict(False, self._clock.seconds(), unasked=True)
        finally:
            line.withdraw(mine)
            turns.pop(mine, None)
        began, ok = self._clock.seconds(), False
        try:
            verdict = await self._judge(asked, entry)
            if verdict.ok and not admits(verdict.name or asked.username):
                # To whoever guesses it looks like a wrong password, also at the next try
                verdict = evolve(verdict, ok=False)
            ok = verdict.ok
        finally:
            now = self._clock.seconds()
            self._slowness.judged(now - began, now)
            line.done(mine, not ok, now)
            self._go_on(entry)
        return verdict

    def _go_on(self, entry: str) -> None:
        """Let those be judged whose turn it is, and look again when the next one's is."""
        line, turns = self._lines[entry], self._turns[entry]
        while (mine := line.take(self._clock.seconds())) is not None:
            turns.pop(mine).callback(True)
        later = self._later.pop(entry, None)
        if later is not None and later.active():
            later.cancel()
        pause = line.pause(self._clock.seconds())
        if pause is not None:
            self._later[entry] = self._clock.callLater(pause, self._go_on, entry)

    async def _judge(self, asked: Credentials, entry: str) -> Verdict:
        began = self._clock.seconds()
        told = {"password": asked.password} if asked.code is None else {"code": asked.code}
        answer = await self.ask(entry, asked.eauth, asked.username, told)
        if problem := str(answer.get("problem") or ""):
            self.tell(f"problem {asked.eauth}", problem)
        name = str(answer.get("name") or "")
        if answer.get("closed"):
            await self._gone(asked.eauth, name or asked.username)
        return Verdict(
            answer.get("ok") is True,
            began,
            tuple(str(group) for group in answer.get("groups") or ()),
            name,
            tuple(answer.get("rules") or ()),
            float(answer.get("until") or 0.0),
        )

    async def _look(self, eauth: str, username: str) -> Mapping[str, Any]:
        """What is known of a user without his password."""
        return await self.ask(LOOK_ENTRY, eauth, username)

    async def ask(
        self, entry: str, eauth: str, username: str, more: Mapping[str, Any] = NOTHING
    ) -> Mapping[str, Any]:
        """
        A backend's answer, as plain data; with a C{problem} if there is none.

        @param more: what is checked: C{password} or C{code}, or that a browser is to C{begin}.
        """
        if problem := why_not(eauth):
            return {"problem": problem}
        if self._workers is None:
            return {"problem": f"{eauth} is not asked here"}
        told = settings(eauth, self._config)
        if eauth in self._kept:
            told["kept"] = self._kept[eauth]
        payload = {"eauth": eauth, "settings": told, "username": username, **more}
        try:
            answer: Mapping[str, Any] = await self._workers.call(entry, payload, PATIENCE)
        except SaltwistedError as error:
            return {"problem": f"{eauth} did not judge: {error}"}
        keep = answer.get("keep") or {}
        # Of two that fetched at the same time the one that got something counts
        if keep and keep.get("at", 0) >= (self._kept.get(eauth) or {}).get("at", 0):
            self._kept[eauth] = keep
        return answer

    async def _gone(self, eauth: str, username: str) -> None:
        """The account may not be used any more: its tokens end too (T-EAUTH-2)."""
        for digest, token in self.tokens.items():
            if token.who == Who(username, eauth):
                await self.tokens.drop(digest)
                self._counters["login:token-ended"] += 1

    async def explain(
        self, eauth: str, username: str, password: str | None = None
    ) -> dict[str, Any]:
        """
        What a user may do and why, for those who maintain the rules; it lets nobody in.

        @param password: checked as in a login, but without waiting for a turn; without one, the
            answer says what is known without it.
        @raises DeniedError: no login has such a name and password.
        """
        given = {"eauth": eauth, "username": username, "password": password or "x"}
        asked = credentials(given)
        if asked is None:
            raise DeniedError("wrong name or password")
        told = NOTHING if password is None else {"password": password}
        answer = await self.ask(LOOK_ENTRY, eauth, username, told)
        config = self._config
        name = str(answer.get("name") or username)
        groups = [str(each) for each in answer.get("groups") or ()]
        because = reasons(
            config.external_auth,
            eauth,
            name,
            groups,
            bool(config.permissive_acl),
            answer.get("rules") or (),
        )
        return {
            "eauth": eauth,
            "configured": eauth in config.external_auth,
            "name": name,
            "ok": answer.get("ok") is True,
            "closed": answer.get("closed") is True,
            "proven": password is not None,
            "groups": groups,
            "problem": str(answer.get("problem") or ""),
            "steps": [str(each) for each in answer.get("steps") or ()],
            "rules": [{"because": why, "rules": rules} for why, rules in because],
        }

    # -- tokens

    async def make_token(
        self, given: Mapping[str, Any], source: str, admits: Admits = everybody
    ) -> dict[str, Any]:
        """
        A token for a user who has proven a password; the only time that the token is visible.

        @param given: other fields than those of a login have no effect, and no backend gets them
            (T-EAUTH-1).
        @param admits: as for L{prove}.
        @return: Salt's map, with C{token}.
        @raises NotProven: the password is wrong.
        @raises StoreError: it could not be stored.
        """
        asked, verdict = await self.login(given, source, admits)
        return await self.made(asked, verdict, given.get("token_expire"), source)

    async def made(
        self, asked: Credentials, verdict: Verdict, expire: Any, source: str
    ) -> dict[str, Any]:
        """
        A token for a user whose identity is proven.

        @param expire: the lifetime in seconds that the user has asked for, if any.
        @raises NotProven: that is not a valid time.
        @raises StoreError: it could not be stored.
        """
        config = self._config
        life = lifetime(
            expire,
            float(config.token_expire),
            config.token_expire_user_override,
            asked.eauth,
            asked.username,
        )
        if life is None:
            raise NotProven("eauth", asked.username)
        token = self.token_of(asked, verdict, life)
        word = new_token(self._entropy, config.hash_type)
        await self._make_room(token)
        await self.tokens.put(token_digest(word), token)
        self._counters["login:token-made"] += 1
        self.log.info(
            "{who} made a token by {eauth} (from {source})",
            who=asked.username,
            eauth=asked.eauth,
            source=source,
            foreign=True,
            always=True,
        )
        return {**token.shown(), "token": word}

    def token_of(self, asked: Credentials, verdict: Verdict, life: float) -> Token:
        """
        What is kept of a token.

        @raises NotProven: what proved the user has ended.
        """
        start = self.tokens.now()
        if verdict.until:
            # What proved him does not prove more for being exchanged
            life = min(life, verdict.until - start)
            if life <= 0:
                raise NotProven("eauth", asked.username)
        return Token(
            name=asked.username,
            eauth=asked.eauth,
            start=start,
            expire=start + life,
            groups=verdict.groups,
            rules=self._rules(asked, verdict) if self._config.keep_acl_in_token else None,
            epoch=self.tokens.epoch,
        )

    async def _make_room(self, token: Token) -> None:
        own = [
            (each.start, digest) for digest, each in self.tokens.items() if each.who == token.who
        ]
        for _, digest in sorted(own)[: max(0, len(own) - PER_USER + 1)]:
            await self.tokens.drop(digest)

    async def delete_token(self, token: Any) -> bool:
        """
        End a token, for good and everywhere; whether there was one.

        @raises StoreError: the disk refused.
        """
        digest = token_digest(token)
        return bool(digest) and await self.tokens.drop(digest)

    # -- what the operator hears

    def _refuse(self, kind: str, user: str, source: str) -> None:
        self._counters[f"login:refused-{kind}"] += 1
        whom = f" of {user}" if user else ""
        # The name may be a password that slipped into the wrong field, but Salt's operators need it
        self.tell(f"{kind} {source}", f"a login{whom} by {kind} from {source} was refused")

    def kept(self, eauth: str) -> Mapping[str, Any]:
        """What a backend has handed back to be handed in again, such as a provider's keys."""
        return self._kept.get(eauth) or {}

    def tell(self, about: str, text: str) -> None:
        """Once a minute about each thing: strangers cannot fill the log."""
        now = self._clock.seconds()
        if len(self._told) > 100:
            self._told.clear()
        if now - self._told.get(about, -QUIET) >= QUIET:
            self._told[about] = now
            self.log.warn("{text}", text=text[:400], foreign=True)
