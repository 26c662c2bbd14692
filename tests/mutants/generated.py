"""
Mutations that are made from the source of decoders and of rules about rights.

A row of L{PLACES} names a module and its nearest tests. Kinds of mutations, by the word in their
names:

  - C{let}: a C{raise} becomes C{pass}. One inside C{except} only renames an error, and stays.
  - C{and}: the C{or} of a condition becomes C{and}, if the condition leads to a refusal: to a
    C{raise}, or to one of the C{return}s below.
  - C{yes}: in modules that decide rights, C{return False} becomes C{return True}.
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
    "domain/replica/entry.py": ("tests.domain.test_replicabodies",),
    "domain/replica/fold.py": ("tests.domain.test_replicabodies",),
    "domain/replica/logins.py": ("tests.laws.test_replica_logins",),
    "domain/replica/keyset.py": ("tests.laws.test_replica_keys",),
    "domain/replica/secrets.py": ("tests.domain.test_replicabodies",),
    "domain/replica/minions.py": ("tests.domain.test_replicabodies",),
    "domain/claims/messages.py": ("tests.domain.claims.test_voter",),
    "domain/sharing.py": ("tests.domain.test_sharing",),
    "config/git.py": ("tests.config.test_git",),
    "domain/git/agreement.py": ("tests.domain.test_gitagreement",),
    "domain/bearer.py": ("tests.domain.test_bearer",),
    "domain/nested.py": ("tests.domain.test_nested",),
    "domain/operations/arguments.py": ("tests.domain.test_operations",),
    "domain/api/bodies.py": ("tests.web.test_bad_input.BodyTests",),
    "domain/api/lowstate.py": ("tests.web.test_api.LowStateTests", "tests.web.test_bad_input"),
    "domain/api/signatures.py": ("tests.web.test_githook", "tests.web.test_events"),
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
    "domain/firing.py": ("tests.domain.test_firing", "tests.domain.test_acl"),
    "domain/jid.py": ("tests.domain.test_jid",),
    "domain/jobids.py": ("tests.domain.test_jobids",),
    "domain/keys.py": ("tests.domain.test_keys",),
    "domain/eauth.py": ("tests.domain.test_eauth",),
    "domain/operations/table.py": ("tests.domain.test_operations",),
    "master/rights.py": ("tests.master.test_operations", "tests.master.test_logins"),
    "master/permits.py": ("tests.master.test_doors", "tests.master.test_targets"),
    "worker/process/ldap.py": ("tests.worker.test_ldap_alone",),
}
"""Modules that decide who may do what: their refusals are C{False}, too."""
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
        self._condition = ""
        self._named: dict[str, int] = {}
        self._excepted = 0

    # -- places

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function, or a class."""
        self._within.append(node.name)
        kept, self._condition = self._condition, ""
        for each in node.body:
            self.visit(each)
        self._condition = kept
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
        if isinstance(node.value, ast.Constant) and node.value.value is False:
            self._add("yes", self._condition or "at the end", node.value, "True")
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
        if isinstance(value, ast.Constant) and value.value is False:
            return self._path in RIGHTS
        names = FAULTS.get(self._path, ())
        is_text = isinstance(value, ast.JoinedStr) or (
            isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value != ""
        )
        return is_text and bool({*names} & {*self._within})

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
