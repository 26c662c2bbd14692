"""
Mutants: each defence is taken out once, and some test has to fail.

    python -m tests.mutants --list                   # all mutations, by name
    python -m tests.mutants --only T-GIT-7           # those of one threat
    python -m tests.mutants --only domain.roots      # those of some modules
    python -m tests.mutants                          # all: under an hour on two processors

A mutation (L{tests.mutants.mutation.Mutation}) is one small change of one file of C{saltwisted/},
which takes a defence out or reverses it, and the tests that are nearest to it. There are two
sources of them:

  - C{byhand.py} has at least one for each id in C{docs/threats.md}: an old text, which has to be in
    its file exactly once, and a new one.
  - C{generated.py} makes one of each refusal in the decoders and in the rules about rights. It
    reads their source: a C{raise} becomes C{pass}, C{or} becomes C{and} where a refusal is decided,
    C{return False} and other answers that refuse become those that allow, a bound becomes a
    thousand times as large. Their names are made of the function and of the condition, not of
    lines, so they stay what they are when something else in the file changes.

The runner (C{runner.py}) copies the tree, changes one file of the copy, runs the nearest tests in a
process of its own, and puts the file back. A mutation is killed if a test fails, or if time is up.
First it runs the same tests without the mutation: they have to pass, and at least one must not be
skipped, or their failure would say nothing.

A mutation that survives is a defence without a test, unless C{reasons.py} says why nothing can
notice it. The runner ends with 1 if one survives without a reason, if tests fail without a
mutation, or if a mutation or a reason no longer fits the source. C{tests.docs.test_mutants} checks
the last one in every run of the tests; the rest is in no run of CI.

Not tried: bounds that are off by one. Whoever moves a bound by one has not taken it away.
"""
