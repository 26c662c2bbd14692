"""
Mutations that are made from the source of decoders and of rules about rights.

A row of L{PLACES} names a module and its nearest tests. Kinds of mutations, by the word in their
names:

  - C{let}: a C{raise} becomes C{pass}. One inside C{except} only renames an error, and stays.
  - C{and}: the C{or} of a condition becomes C{and}, if the condition leads to a refusal: to a
    C{raise}, or to one of the C{return}s below.
  - C{yes}: in modules that decide rights, C{return False} becomes C{return True}, and so do other
    refusals: L{OPPOSITES}, and C{None} where a function answers with something in L{OR_NONE}.
  - C{fine}: in functions that answer with the text of a fault, that text becomes empty.
  - C{bound}: a constant that is called a limit becomes a thousand times as large.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tests.mutants.mutation import Mutation, source_of

DECODERS: Mapping[str, tuple[str, ...]] = {
    "wire/decoding.py": (
        "tests.wire.test_decoding.StepTests",
        "tests.wire.test_decoding.KeyTests",
        "tests.wire.test_decoding.ContainerTests",
        "tests.wire.test_counting",
    ),
    "wire/envelope.py": ("tests.wire.test_envelope",),
    "wire/handshake.py": ("tests.wire.test_handshake",),
    "wire/commands.py": ("tests.wire.test_commands",),
    "wire/msgpack.py": ("tests.wire.test_msgpack", "tests.wire.test_longpack"),
    "wire/publication.py": ("tests.wire.test_publication",),
    "wire/rsa.py": ("tests.wire.test_rsa",),
    "wire/crypticle.py": ("tests.wire.test_crypticle",),
    "wire/frames.py": ("tests.wire.test_frames",),
    "domain/roots/codec.py": ("tests.domain.test_rootscodec",),
    "domain/roots/guards.py": ("tests.domain.test_rootsguards",),
    "domain/roots/frames.py": ("tests.domain.test_rootsguards",),
    "domain/roots/greeting.py": ("tests.domain.test_greeting",),
    "domain/roots/delta.py": ("tests.roots.test_delta",),
    "domain/replica/membership.py": (
        "tests.domain.test_replicabodies",
        "tests.laws.test_replica_members.RightsTests",
    ),
    "domain/replica/joining.py": ("tests.domain.test_attempts",),
    "domain/replica/words.py": ("tests.domain.test_replicabodies",),
    "domain/replica/tokens.py": ("tests.domain.test_tokens",),
    "domain/replica/entry.py": ("tests.domain.test_replicabodies", "tests.attack.test_poison"),
    "domain/replica/fold.py": ("tests.domain.test_replicabodies",),
    "domain/replica/logins.py": ("tests.laws.test_replica_logins",),
    "domain/replica/keyset.py": (
        "tests.domain.test_replicabodies.KeyTests",
        "tests.laws.test_replica_keys",
    ),
    "domain/replica/secrets.py": ("tests.domain.test_replicabodies",),
    "domain/replica/minions.py": ("tests.domain.test_replicabodies",),
    "domain/claims/messages.py": ("tests.domain.claims.test_voter.MessageTests",),
    "domain/claims/etcd.py": ("tests.domain.claims.test_etcd", "tests.attack.test_text.Answers"),
    "domain/sharing.py": ("tests.domain.test_sharing",),
    "config/git.py": ("tests.config.test_git",),
    "domain/git/agreement.py": ("tests.domain.test_gitagreement",),
    "domain/bearer.py": ("tests.domain.test_bearer",),
    "domain/nested.py": ("tests.domain.test_nested",),
    "domain/operations/arguments.py": ("tests.domain.test_operations",),
    "domain/api/bodies.py": ("tests.domain.test_apiwords",),
    "domain/api/lowstate.py": ("tests.domain.test_apiwords", "tests.web.test_api.LowStateTests"),
    "domain/api/signatures.py": ("tests.domain.test_apiwords",),
    "cluster/git/exchange.py": ("tests.cluster.test_gitexchange",),
    "tools/backup.py": (
        "tests.worker.test_backup.ForgedTests",
        "tests.worker.test_backup.BackupTests.test_never_still",
    ),
}
"""Modules whose refusals are errors, and the tests that are nearest."""
RIGHTS: Mapping[str, tuple[str, ...]] = {
    "domain/acl.py": ("tests.domain.test_acl", "tests.domain.test_firing"),
    "domain/events.py": ("tests.domain.test_events",),
    "domain/minionevents.py": ("tests.domain.test_minionevents",),
    "domain/firing.py": ("tests.domain.test_firing", "tests.domain.test_acl"),
    "domain/jid.py": ("tests.domain.test_jid",),
    "domain/jobids.py": ("tests.domain.test_jobids",),
    "domain/keys.py": ("tests.domain.test_keys",),
    "domain/eauth.py": ("tests.domain.test_eauth",),
    "domain/operations/table.py": ("tests.domain.test_operations",),
    "master/rights.py": ("tests.master.test_operations", "tests.master.test_logins"),
    "master/permits.py": ("tests.master.test_operations", "tests.master.test_doors"),
    "wire/text.py": ("tests.attack.test_text.Packing",),
    "worker/called.py": (
        "tests.worker.test_loader.LoadingTests.test_T_ACL_3_no_other_way",
        "tests.worker.test_whitelist.WhitelistTests",
    ),
    "worker/process/ldap.py": ("tests.worker.test_ldap_alone",),
}
"""Modules that decide who may do what: their refusals are C{False}, too."""
OPPOSITES: Mapping[str, str] = {
    "False": "True",
    "Standing.NEVER": "Standing.FREE",
    "Standing.CLOSED": "Standing.FREE",
    "_NEVER": "None",
    "_Reach.NOT_HERE": "_Reach.EVERYWHERE",
}
"""Answers of modules that decide rights: each refusal, and what allows it instead."""
OR_NONE: Mapping[str, str] = {"Grant": "Grant()", "Selection": "Selection(minions=[])"}
"""Of a function that answers with one of these or C{None}, C{None} refuses; what allows instead."""
FAULTS: Mapping[str, tuple[str, ...]] = {
    "domain/git/signing.py": ("wrong_with_gpg", "wrong_with_ssh"),
    "domain/acl.py": ("command_fault",),
}
"""Functions whose answer is what is wrong; C{""} is nothing."""
FAULT_TESTS = {"domain/git/signing.py": ("tests.domain.test_gitsigning",)}
PLACES: Mapping[str, tuple[str, ...]] = {**DECODERS, **RIGHTS, **FAULT_TESTS}
BOUND_TESTS = ("tests.domain.test_bounds",)
"""What notices a larger bound; whether one is kept at all, C{let} and C{and} try."""
_LIMIT = re.compile(r"^_?(MOST|MAX|LONGEST|LARGEST|LIMIT)(_|$)|(_|^)(MOST|MAX)$")
_WORDS = 70
"""Signs of a condition that are in a name."""


def generated() -> list[Mutation]:
    """
    All of them, in the order of the modules.

    @raises NotApplying: a module is gone.
    """
    found = []
    for path, tests in PLACES.items():
        found += of_source(path, source_of(path), tests)
    return found


def of_source(path: str, source: bytes, tests: tuple[str, ...]) -> list[Mutation]:
    """The mutations of one module."""
    maker = _Maker(path, source, tests)
    maker.visit(ast.parse(source))
    return maker.found


class _Maker(ast.NodeVisitor):
    """Walks through a module, and remembers in which function it is."""

    def __init__(self, path: str, source: bytes, tests: tuple[str, ...]) -> None:
        self.found: list[Mutation] = []
        self._path, self._source, self._tests = path, source, tests
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._within: list[str] = []
        self._allows = ""
        self._condition = ""
        self._named: dict[str, int] = {}
        self._excepted = 0

    # -- places

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function, or a class."""
        self._within.append(node.name)
        kept, self._condition = self._condition, ""
        allows, self._allows = self._allows, self._allowing(node)
        for each in node.body:
            self.visit(each)
        self._condition, self._allows = kept, allows
        self._within.pop()

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """What is in it happens when something else has already failed."""
        self._excepted += 1
        self.generic_visit(node)
        self._excepted -= 1

    def visit_If(self, node: ast.If) -> None:
        """A condition, and what follows from it."""
        if any(self._refuses(each) for each in node.body):
            self._weaken(node.test)
        kept, self._condition = self._condition, self._text(node.test)
        for each in node.body:
            self.visit(each)
        self._condition = kept
        for each in node.orelse:
            self.visit(each)

    # -- what is changed

    def visit_Raise(self, node: ast.Raise) -> None:
        """A refusal."""
        if node.exc is not None and not self._excepted:
            self._add("let", self._condition or self._text(node), node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        """An answer that is a refusal."""
        if not self._refuses(node):
            return
        assert node.value is not None
        if opposite := self._opposite(node.value):
            self._add("yes", self._condition or "at the end", node.value, opposite)
        else:
            self._add("fine", self._text(node.value), node.value, '""')

    def visit_Assign(self, node: ast.Assign) -> None:
        """A bound."""
        target = node.targets[0]
        if self._within or not isinstance(target, ast.Name) or not _LIMIT.search(target.id):
            return
        if all(isinstance(each, _SUM) for each in ast.walk(node.value)):
            new = f"1000 * ({self._text(node.value, 0)})"
            self._add("bound", target.id, node.value, new, BOUND_TESTS)

    def _refuses(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Raise):
            return node.exc is not None
        if not isinstance(node, ast.Return) or node.value is None:
            return False
        value = node.value
        if self._opposite(value):
            return True
        names = FAULTS.get(self._path, ())
        is_text = isinstance(value, ast.JoinedStr) or (
            isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value != ""
        )
        return is_text and bool({*names} & {*self._within})

    def _opposite(self, value: ast.expr) -> str:
        """What allows what this answer refuses; C{""}: it is no refusal."""
        if self._path not in RIGHTS:
            return ""
        if isinstance(value, ast.Constant) and value.value is None:
            return self._allows
        return OPPOSITES.get(self._text(value), "")

    def _allowing(self, node: ast.FunctionDef) -> str:
        """What a function answers with if it does not refuse; C{""}: C{None} is no refusal."""
        returns = getattr(node, "returns", None)
        text = "" if returns is None else self._text(returns)
        found = (OR_NONE[kind] for kind in OR_NONE if re.search(rf"\b{kind} \| None", text))
        return next(found, "")

    def _weaken(self, test: ast.expr) -> None:
        for node in ast.walk(test):
            if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
                parts = [f"({self._text(each, 0)})" for each in node.values]
                self._add("and", self._text(node), node, f"({' and '.join(parts)})")

    def _add(
        self, kind: str, about: str, node: ast.AST, new: str, tests: tuple[str, ...] = ()
    ) -> None:
        start, end = self._span(node)
        module = self._path.removesuffix(".py").replace("/", ".")
        place = ".".join((module, *self._within))
        name = f"{place}: {kind} {about}"
        # The same condition stands twice in some functions
        count = self._named[name] = self._named.get(name, 0) + 1
        self.found.append(
            Mutation(
                name=f"{name} ({count})" if count > 1 else name,
                path=self._path,
                old=self._source[start:end].decode(),
                new=new,
                tests=tests or self._tests,
                at=start,
            )
        )

    def _span(self, node: ast.AST) -> tuple[int, int]:
        where: ast.expr = node  # type: ignore[assignment]
        assert where.end_lineno is not None and where.end_col_offset is not None
        return (
            self._starts[where.lineno - 1] + where.col_offset,
            self._starts[where.end_lineno - 1] + where.end_col_offset,
        )

    def _text(self, node: ast.AST, most: int = _WORDS) -> str:
        """Its source; for a name on one line, and no longer than C{most}."""
        start, end = self._span(node)
        text = self._source[start:end].decode()
        return " ".join(text.split())[:most] if most else text


_SUM = (ast.Constant, ast.BinOp, ast.Name, ast.operator, ast.expr_context)


def named(mutations: list[Mutation]) -> Iterator[str]:
    """Their names."""
    return (each.name for each in mutations)
