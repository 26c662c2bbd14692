"""
Records what stock Salt renders and compiles, for C{test_render_stock.py}.

Run with the Python of a stock Salt 3008.2::

    python tests/domain/record_render.py > tests/domain/render_cases.json

It works in temporary directories, starts nothing but the commands that a case
names, and is not part of the test run. Tracebacks in error texts are cut to the
word TRACE, the roots' directory to DIR.
"""

import json
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import jinja2.defaults
import jinja2.sandbox
import salt.config
import salt.pillar
import salt.utils.jinja
import salt.version
from salt.utils.decorators.jinja import JinjaFilter, JinjaGlobal, JinjaTest

ENVIRONMENT = jinja2.sandbox.SandboxedEnvironment(extensions=[salt.utils.jinja.SerializerExtension])
ENVIRONMENT.filters.update(JinjaFilter.salt_jinja_filters)

HERE = Path(__file__).parent
TRACE = re.compile(
    r"Traceback \(most recent call last\):.*?(?=\n\n; line|\n\[\.\.\.\]|\n---\Z|\Z)", re.DOTALL
)
GRAINS = {
    "id": "m1",
    "os": "Debian",
    "ipv4": ["127.0.0.1", "10.1.2.3"],
    "roles": ["web", "db"],
    "n": {"k": "v"},
}


def compile_pillar(case):
    """Stock's pillar of one case."""
    where = tempfile.mkdtemp(prefix="record")
    roots = {}
    for env, files in case["roots"].items():
        for path, text in files.items():
            full = os.path.join(where, env, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", newline="") as stream:
                stream.write(text)
        roots[env] = [os.path.join(where, env)]
    opts = salt.config.master_config(None)
    opts.update(
        {
            "root_dir": where,
            "cachedir": where + "/cache",
            "pillar_roots": roots,
            "file_roots": roots,
            "conf_file": where + "/master",
            "config_dir": where,
            "extension_modules": where + "/ext",
            "pillar_safe_render_error": False,
        }
    )
    opts.update(json.loads(json.dumps(case.get("opts", {})).replace("DIR/", where + "/")))
    try:
        pillar = salt.pillar.Pillar(
            dict(opts),
            dict(GRAINS),
            "m1",
            case.get("saltenv"),
            pillarenv=case.get("pillarenv"),
            pillar_override=case.get("override"),
            ext=case.get("ext"),
        ).compile_pillar()
    except BaseException as error:
        return {"raised": str(error)}
    finally:
        shutil.rmtree(where)
    text = json.dumps(pillar, default=repr).replace(where, "DIR")
    pillar = json.loads(text)
    if "_errors" in pillar:
        pillar["_errors"] = [TRACE.sub("TRACE", error) for error in pillar["_errors"]]
    return pillar


def main():
    """Answer every case of render_inputs.json."""
    logging.disable(100)
    inputs = json.loads((HERE / "render_inputs.json").read_text())
    expressions = []
    for expression in inputs["expressions"]:
        sls = "v: |-\n    {{ " + expression + " }}\n"
        files = {"top.sls": "base:\n  '*': [a]\n", "a.sls": sls}
        answer = compile_pillar({"roots": {"base": files}})
        expressions.append([expression, answer.get("v"), answer.get("_errors")])
    documents = []
    for text in inputs["documents"]:
        files = {"top.sls": "base:\n  '*': [a]\n", "a.sls": "#!yaml\n" + text}
        documents.append([text, compile_pillar({"roots": {"base": files}})])
    pillars = [[case, compile_pillar(case)] for case in inputs["pillars"]]
    worker = [[case, compile_pillar(case)] for case in inputs["worker"]]
    recorded = {
        "salt": salt.version.__version__,
        "grains": GRAINS,
        "expressions": expressions,
        "documents": documents,
        "pillars": pillars,
        "worker": worker,
        "names": {
            "filters": sorted(ENVIRONMENT.filters.keys() - jinja2.defaults.DEFAULT_FILTERS.keys()),
            "filters_changed": sorted(JinjaFilter.salt_jinja_filters),
            "tests": sorted(JinjaTest.salt_jinja_tests),
            "globals": sorted(JinjaGlobal.salt_jinja_globals),
        },
    }
    json.dump(recorded, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
