"""
The formulas and trees of C{chosen.yaml}: where each comes from, and how it is laid out to be run.

None of their text is kept here. A tree is read from a git directory below a folder of mirrors
(C{OWNER+NAME/repo}, or C{OWNER/NAME.git}), or else cloned from GitHub; its commit is the one that
is listed.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml
from attrs import field, frozen

CHOSEN = Path(__file__).parent / "chosen.yaml"


@frozen
class Tree:
    """
    One formula, or one site's tree.

    @ivar sls: what its top file names.
    @ivar states: the folder of the repository that is the state tree.
    @ivar pillar: the file that is its pillar, or a folder with a top file of its own.
    @ivar needs: names of other trees that lie beside it in C{file_roots}.
    @ivar grains: those that a site gives its machines.
    @ivar differs: why ours and stock differ on it, where they do.
    """

    name: str
    repo: str
    commit: str
    sls: tuple[str, ...]
    states: str = "."
    pillar: str = "pillar.example"
    needs: tuple[str, ...] = ()
    grains: dict[str, Any] = field(factory=dict)
    minion: str = "m1"
    kind: str = "formula"
    differs: str = ""


def chosen() -> dict[str, Tree]:
    """All of them by name, in the order of the file."""
    found = {}
    for name, words in yaml.safe_load(CHOSEN.read_text()).items():
        words = {"sls": [name], **words}
        for key in ("sls", "needs"):
            words[key] = tuple(words.get(key, ()))
        words.setdefault("repo", f"saltstack-formulas/{name}-formula")
        found[name] = Tree(name, **words)
    return found


def git_directory(tree: Tree, mirror: Path) -> Path:
    """
    Where its repository is, cloned into the folder if it was not there.

    @raises OSError: it is not there and cannot be had.
    """
    owner, name = tree.repo.split("/")
    for place in (mirror / f"{owner}+{name}" / "repo", mirror / owner / f"{name}.git"):
        for there in (place, place / ".git"):
            if (there / "HEAD").is_file():
                return there
    place = mirror / owner / f"{name}.git"
    done = subprocess.run(
        ["git", "clone", "-q", "--bare", f"https://github.com/{tree.repo}", str(place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise OSError(f"{tree.repo}: {done.stderr.strip()}")
    return place


def unpack(tree: Tree, mirror: Path, into: Path) -> None:
    """
    Write the files of its commit below a directory.

    A mirror may lack a repository's largest files (archives, pictures): neither side gets them.
    """
    git = ["git", "--git-dir", str(git_directory(tree, mirror))]
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "-z", tree.commit], capture_output=True, check=False
    )
    if listed.returncode:
        raise OSError(f"{tree.repo} {tree.commit}: {listed.stderr.decode(errors='replace')}")
    into.mkdir(parents=True)
    entries = [entry.split(b"\t", 1) for entry in listed.stdout.split(b"\0") if entry]
    blobs = [(*meta.split(), os.fsdecode(path)) for meta, path in entries]
    blobs = [blob for blob in blobs if blob[1] == b"blob"]
    told = subprocess.run(
        [*git, "cat-file", "--batch"],
        input=b"".join(blob[2] + b"\n" for blob in blobs), capture_output=True, check=True,
    ).stdout  # fmt: skip
    at = 0
    for mode, _, _, path in blobs:
        end = told.index(b"\n", at)
        words, at = told[at:end].split(), end + 1
        if words[-1] == b"missing":
            continue
        text = told[at : at + int(words[2])]
        at += len(text) + 1
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode == b"120000":
            target.symlink_to(os.fsdecode(text))
        else:
            target.write_bytes(text)
            target.chmod(int(mode, 8) & 0o777)


def lay_out(tree: Tree, trees: dict[str, Tree], mirror: Path, into: Path) -> str:
    """
    Make the directory that a C{salt-call --local} is to use.

    @return: the folder of its configuration.
    """
    roots = []
    for one in (tree, *(trees[name] for name in tree.needs)):
        unpack(one, mirror, into / "trees" / one.name)
        roots.append(os.path.normpath(into / "trees" / one.name / one.states))
    top, pillars = into / "top", into / "pillar"
    top.mkdir()
    pillars.mkdir()
    (top / "top.sls").write_text(json.dumps({"base": {"*": list(tree.sls)}}))
    given = into / "trees" / tree.name / tree.pillar
    if tree.pillar and given.is_dir():
        pillars = given
    elif tree.pillar:
        (pillars / "top.sls").write_text(json.dumps({"base": {"*": ["example"]}}))
        (pillars / "example.sls").write_bytes(given.read_bytes())
    opts = {
        "id": tree.minion,
        "file_client": "local",
        "log_level": "quiet",
        "log_level_logfile": "quiet",
        "enable_gpu_grains": False,
        "enable_fqdns_grains": False,
        "file_roots": {"base": [str(top), *roots]},
        "pillar_roots": {"base": [str(pillars)]},
        "grains": tree.grains,
    }
    conf = into / "conf"
    conf.mkdir()
    (conf / "minion").write_text(json.dumps(opts))
    return str(conf)
