"""
What the tests of renderers and pillar share: the recorded answers, and a compilation in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saltwisted.domain.pillar.compile import Compiled, PillarCompiler
from saltwisted.domain.pillar.settings import PillarSettings
from saltwisted.domain.render.pipeline import Renderer, RenderSettings
from saltwisted.domain.targeting.matchers import MinionFacts
from tests.fakes.renderhost import MemoryHost

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "render_cases.json").read_text())

_TRACE = re.compile(
    r"Traceback \(most recent call last\):.*?(?=\n\n; line|\n\[\.\.\.\]|\n---\Z|\Z)", re.DOTALL
)
OPTS: dict[str, Any] = {
    "renderer": "jinja|yaml",
    "pillar_safe_render_error": False,
    "decrypt_pillar_renderers": ["gpg"],
    "id": "m1",
    "minion_id": "m1",
    "saltenv": None,
    "pillarenv": None,
    "__role": "master",
}


def without_traces(text: str) -> str:
    """Cut tracebacks, as the recorder does."""
    return _TRACE.sub("TRACE", text)


class NoExt:
    """No external pillars."""

    def has(self, name: str) -> bool:
        return False

    def run(self, name: str, pillar: Mapping[str, Any], config: Any) -> Any:
        raise AssertionError("there are none")

    def replaced(self, pillar: Mapping[str, Any]) -> None:
        pass


def renderer(
    roots: Mapping[str, Mapping[str, str | bytes]],
    opts: Mapping[str, Any] | None = None,
    grains: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
    **more: Any,
) -> Renderer:
    """A renderer over files in memory."""
    settings = {**OPTS, **(opts or {})}
    return Renderer(
        MemoryHost(roots),
        RenderSettings.of(settings),
        opts=settings,
        grains=RECORDED["grains"] if grains is None else grains,
        pillar={},
        functions=functions or {},
        **more,
    )


def compile_case(case: Mapping[str, Any], ext: Any = None) -> Compiled:
    """Compile one case as the recorder does."""
    opts = {**OPTS, **case.get("opts", {})}
    opts["pillar_roots"] = {env: [f"DIR/{env}"] for env in case["roots"]}
    settings = PillarSettings.of(opts, case.get("saltenv"), case.get("pillarenv"))
    host = MemoryHost(case["roots"], settings.pillarenv or case.get("saltenv") or "base")
    opts.update(
        pillar_roots=dict(settings.roots),
        grains=RECORDED["grains"],
        saltenv=case.get("saltenv"),
        pillarenv=settings.pillarenv,
    )
    grains = RECORDED["grains"]
    made = Renderer(
        host, RenderSettings.of(opts), opts=opts, grains=grains, pillar={}, functions={}
    )
    facts = MinionFacts(id="m1", grains=grains, nodegroups=opts.get("nodegroups") or {})
    return PillarCompiler(
        settings, facts, made, host, ext or NoExt(), case.get("override")
    ).compile()


def plain(value: Any) -> Any:
    """As JSON has it, as the recorder does."""
    return json.loads(json.dumps(value, default=repr))
