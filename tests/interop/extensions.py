"""
The unit tests of Salt extensions, run with our C{salt}, and which of their module files load.

    PYTHONPATH=. python tests/interop/extensions.py --python PYTHON [--stock PACKAGES] CLONE...

A clone is a git repository of an extension. Its tests are run as they were at the commit in
L{COMMITS}, or at its newest one. PYTHON is that of a venv with C{pytest} and the libraries that
the extensions ask for, and without the C{salt} package. PACKAGES is the C{site-packages} of a venv
that has stock's: each test is then run with that, too, in the same way, which says what a failure
is worth. Nothing is written but into a temporary directory. L{tests.interop.extensionplugin} is
what C{pytest} has from us.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import define, field, frozen

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMMITS = {
    "saltext-vault": "74c8871cc0",
    "saltext-dockermod": "b2e6f9d6b4",
    "saltext-mysql": "0455d7579b",
    "saltext-kubernetes": "b9f961a1a1",
    "saltext-elasticsearch": "73f0c03e7a",
    "saltext-zabbix": "5fa0ef2cc7",
    "saltext-consul": "26cb115fbd",
    "saltext-redis": "7295b49340",
    "saltext-mongodb": "521adf49f4",
    "saltext-github": "cd69ee48b8",
    "saltext-prometheus": "f7771d1d6c",
    "saltext-s3fs": "b23142b40a",
}
LOAD = """
import json, logging, os, sys
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.modulefiles import KINDS

logging.disable(logging.CRITICAL)
root = os.path.abspath(sys.argv[1])
opts = {"id": "x", "file_client": "local", "cachedir": sys.argv[2]}
grains = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "id": "x"}
loaders = Loaders(opts, grains=grains, pillar={}, stock=False)
found = {}
for kind in KINDS:
    for file in [file for (file,) in loaders[kind]._catalogue.by_name().values()]:
        if file.path.startswith(root):
            loaders.module_of(kind, file.name)
            missing = loaders[kind].missing_modules
            why = missing.get(file.name)
            failed = isinstance(why, BaseException)
            state = "fails" if failed else "refuses" if file.name in missing else "loads"
            found[os.path.relpath(file.path, root)] = [state, str(why or "")]
assert loaders.modules["test.ping"]() is True
print(json.dumps(found))
"""
"""
A program that loads all module files below a directory, and prints for each whether it
C{loads}, C{refuses} by its C{__virtual__}, or C{fails}, and why.
"""

INTERNAL = ("thin", "HighState", "master", "minion", "netapi", "transport", "channel")
"""Parts of Salt that are stock's own insides, and no helper of modules."""
_NETWORK = (
    "Connection",
    "Socket",
    "gaierror",
    "NewConnection",
    "MaxRetry",
    "HTTPError",
    "SSLError",
)
_PARTS = re.compile(r"(?:salt|saltwisted)\.(?:utils|compat|modules|states)?[\w.]*")


@frozen
class Result:
    """
    How a test ended.

    @ivar outcome: C{passed}, C{failed}, C{skipped}, or C{uncollected} of a whole file.
    @ivar missing: what an error says is missing.
    """

    test: str
    outcome: str
    error: str = ""
    words: str = ""
    missing: str = ""


@define
class Run:
    """
    All tests of one extension with one C{salt}.

    @ivar ended: what C{pytest} said, if it did not get as far as the tests.
    """

    results: dict[str, Result] = field(factory=dict)
    ended: str = ""

    def named(self, *outcomes: str) -> set[str]:
        """The tests that ended so."""
        return {name for name, each in self.results.items() if each.outcome in outcomes}


def cause_of(result: Result, with_stock: str | None = None) -> str:
    """
    Why a test fails.

    @param with_stock: its outcome with stock's C{salt}, if it is known.
    @return: C{failed with stock, too}; C{needs stock's internals}; C{part not here}; C{library not
        installed}; C{needs a running master}; C{outside service}; C{time limit}; or C{differs}.
    """
    if with_stock is not None and with_stock != "passed":
        return f"{with_stock} with stock, too"
    if result.error == "TimedOut":
        return "time limit"
    named = f"{result.missing} {result.words}"
    ours = "has no part of this name" in named or (
        result.error in ("AttributeError", "ImportError", "ModuleNotFoundError", "KeyError")
        and _PARTS.search(named) is not None
    )
    if ours:
        internal = any(re.search(rf"\b{part}\b", named) for part in INTERNAL)
        return "needs stock's internals" if internal else "part not here"
    if result.error == "ModuleNotFoundError":
        return "library not installed"
    if result.error == "SaltClientError":
        return "needs a running master"
    if any(word in result.error for word in _NETWORK):
        return "outside service"
    return "differs"


def read_report(lines: Iterable[str]) -> dict[str, Result]:
    """What the plugin wrote; of a test that passes and whose end fails, the failure."""
    found: dict[str, Result] = {}
    for line in lines:
        result = Result(**json.loads(line))
        known = found.get(result.test)
        if known is None or known.outcome == "passed":
            found[result.test] = result
    return found


def checked_out(clone: Path, folder: Path) -> str:
    """
    Write a clone's files as they were at its commit.

    @return: the commit, and a star if it is not the one that was asked for.
    """

    def git(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", "-C", str(clone), *words], capture_output=True, check=False)

    asked = COMMITS.get(clone.name, "HEAD")
    has = git("cat-file", "-e", f"{asked}^{{commit}}").returncode == 0
    commit = git("rev-parse", asked if has else "HEAD").stdout.decode().strip()
    archive = git("archive", commit)
    archive.check_returncode()
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return commit[:10] + ("" if has else "*")


def say_installed(folder: Path, site: Path) -> None:
    """Make an extension known by its entry points, as C{pip install} does, and unbuilt."""
    with open(folder / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    name = project["name"].replace("-", "_").replace(".", "_")
    info = site / f"{name}-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    with open(info / "entry_points.txt", "w", encoding="utf-8") as file:
        for group, entries in project.get("entry-points", {}).items():
            file.write(f"[{group}]\n")
            file.writelines(f"{key} = {value}\n" for key, value in entries.items())


def environment(paths: Iterable[Path], **more: str) -> dict[str, str]:
    """That of a process that imports from these places."""
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **more}
    return {**given, "PYTHONDONTWRITEBYTECODE": "1"}


def run_tests(
    python: str, folder: Path, site: Path, limit: float, wanted: str = "", stock: str = ""
) -> Run:
    """
    Run an extension's unit tests.

    @param folder: its files.
    @param site: where its metadata, our package and the plugin are.
    @param limit: seconds for a test; all together have 600 times that.
    @param wanted: an expression of C{pytest -k}.
    """
    report = folder.parent / ("stock" if stock else "ours") / "report"
    report.parent.mkdir()
    words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "extensionplugin"]
    words += ["-o", "addopts=", "--rootdir", str(folder), "--continue-on-collection-errors"]
    words += ["tests/unit"]
    words += ["-k", wanted] if wanted else []
    more = {"EXTENSIONS_REPORT": str(report), "EXTENSIONS_LIMIT": str(limit)}
    if stock:
        more["EXTENSIONS_STOCK"] = stock
    with open(report.parent / "said", "w+", encoding="utf-8", errors="replace") as said:
        try:
            done = subprocess.run(
                words,
                cwd=folder,
                env=environment((folder / "src", site), **more),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=600 * limit,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            done = -1
        said.seek(0)
        last = [line for line in said.read().splitlines() if line.startswith("E ")][-1:]
    results = read_report(report.read_text().splitlines()) if report.exists() else {}
    if done not in (0, 1) and not (done in (2, 5) and results):
        return Run(results, f"pytest ended with {done}: {''.join(last)}")
    return Run(results)


def loaded(python: str, places: Iterable[Path], site: Path) -> dict[str, list[str]]:
    """
    All module files of extensions, loaded in one process: L{LOAD}.

    @param site: where they are laid together, as C{pip install} does.
    """
    (site / "saltext").mkdir(parents=True)
    (site / "saltwisted").symlink_to(ROOT / "saltwisted")
    for place in places:
        say_installed(place, site)
        for package in (place / "src" / "saltext").glob("*/"):
            (site / "saltext" / package.name).symlink_to(package)
    done = subprocess.run(
        [python, "-c", LOAD, str(site / "saltext"), str(site / "cache")],
        env=environment((site,)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows(name: str, commit: str, ours: Run, stock: Run | None) -> Iterable[str]:
    """The line of an extension, and one for each test that fails, or file with which none runs."""
    beside: Mapping[str, Result] = {} if stock is None else stock.results
    with_stock = set() if stock is None else stock.named("passed")
    passed = ours.named("passed")
    counted = passed | ours.named("failed") | with_stock
    causes: dict[str, str] = {}
    lines: dict[str, str] = {}
    for test in sorted((counted - passed) | ours.named("uncollected")):
        result = ours.results.get(test) or ours.results.get(test.partition("::")[0])
        result = result or Result(test, "absent", "", ours.ended or "not collected")
        same = beside[test].outcome if test in beside else None
        causes[test] = cause_of(result, same)
        words = (result.words or " ").splitlines()[0][:160]
        lines.setdefault(result.test, f"    {result.test}: {causes[test]}: {result.error}: {words}")
    kinds = Counter(causes[test] for test in causes if test in counted)
    said = "; ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    column = "" if stock is None else f" {len(with_stock)} |"
    yield f"| `{name}` | {commit} | {len(passed)} of {len(counted)} |{column} {said} |"
    for run, of in ((ours, "ours"), (stock, "stock")):
        if run is not None and run.ended:
            yield f"    with {of}: {run.ended}"
    if not ours.ended:
        yield from lines.values()


def main(words: list[str]) -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip())
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--stock", default="")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for one test")
    parser.add_argument("-k", dest="wanted", default="", help="only tests of this expression")
    parser.add_argument("clones", nargs="+", type=Path)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as base:
        places: list[Path] = []
        for clone in [each.resolve() for each in given.clones]:
            folder = Path(base, clone.name, "files")
            site = Path(base, clone.name, "site")
            site.mkdir(parents=True)
            commit = checked_out(clone, folder)
            say_installed(folder, site)
            (site / "saltwisted").symlink_to(ROOT / "saltwisted")
            shutil.copy(HERE / "extensionplugin.py", site)
            runs = [
                run_tests(given.python, folder, site, given.limit, given.wanted, stock)
                for stock in ("", given.stock)[: 2 if given.stock else 1]
            ]
            for line in rows(clone.name, commit, runs[0], runs[1] if runs[1:] else None):
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
            places.append(folder)
        found = loaded(given.python, places, Path(base, "together"))
        states = Counter(state for state, _ in found.values())
        sys.stdout.write(
            f"{len(found)} module files: {states['loads']} load, {states['refuses']} refuse,"
            f" {states['fails']} fail\n"
        )
        for name, (state, why) in sorted(found.items()):
            if state != "loads":
                sys.stdout.write(f"    {name}: {state}: {why.partition(chr(10))[0][:160]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
