"""
Salt's serialising filters and tags: C{|yaml}, C{|json}, C{load_yaml}, C{import_json} ...

The tags C{load_*} and C{import_*} are the matching filters applied to a block or
to an imported template; C{profile} tells the log how long its block took.
"""

from __future__ import annotations

import itertools
import json
import pprint
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, TemplateRuntimeError, nodes
from jinja2.environment import TemplateModule
from jinja2.ext import Extension
from jinja2.parser import Parser
from markupsafe import Markup

from saltwisted.domain.render.errors import MARKER, excerpt
from saltwisted.domain.render.printing import printable
from saltwisted.domain.render.strict import strict
from saltwisted.domain.render.yaml import YAMLError, safe_load
from saltwisted.domain.render.yamldump import dump_filter


def json_text(value: Any, **options: Any) -> str:
    """JSON with unicode left readable, as Salt writes it."""
    options.setdefault("ensure_ascii", False)
    return json.dumps(value, **options)


def format_json(value: Any, sort_keys: bool = True, indent: Any = None) -> Markup:
    """The C{json} filter."""
    return Markup(json_text(value, sort_keys=sort_keys, indent=indent).strip())  # noqa: S704


def format_yaml(value: Any, flow_style: bool | None = True) -> Markup:
    """The C{yaml} filter."""
    return Markup(dump_filter(value, flow_style))  # noqa: S704 - no HTML here


def format_python(value: Any) -> Markup:
    """The C{python} filter: pretty-printed Python."""
    return Markup(pprint.pformat(value).strip())  # noqa: S704


def sls_params(value: Any, flow_style: bool | None = False) -> Markup:
    """C{dict_to_sls_yaml_params}: a map as the list of single-key maps that states take."""
    return format_yaml([{key: item} for key, item in value.items()], flow_style)


def tojson(val: Any, indent: Any = None, **options: Any) -> str:
    """C{tojson}: JSON that is safe inside HTML, in ASCII."""
    options.setdefault("ensure_ascii", True)
    if indent is not None:
        options["indent"] = indent
    text = json_text(val, **options)
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def format_xml(value: Any) -> Markup:
    """
    The C{xml} filter: map keys become elements, scalar members of a map attributes.

    @raises TemplateRuntimeError: the value is neither a map nor a list.
    """
    # Few templates want it, and each process that renders would have it in memory
    from xml.dom import minidom
    from xml.etree.ElementTree import tostring

    root = _xml_tree(_xml_pairs(value), None)
    document = minidom.parseString(tostring(root))  # noqa: S318 - our own output
    return Markup(document.toprettyxml(indent=" "))  # noqa: S704


def _xml_pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return value if isinstance(value[0], str) else []
    raise TemplateRuntimeError("Value is not a dict or list. Cannot render as XML")


def _xml_tree(pairs: Any, parent: Any) -> Any:
    from xml.etree.ElementTree import Element, SubElement

    made: Any = None
    for tag, inner in pairs:
        if isinstance(inner, list):
            for item in inner:
                _xml_tree(((tag, item),), parent)
        elif parent is not None:
            made = SubElement(parent, tag)
        else:
            made = Element(tag)
        if isinstance(inner, (str, int, bool, float)):
            made.text = str(inner)
            continue
        if isinstance(inner, dict):
            made.attrib = {k: str(v) for k, v in inner.items() if not isinstance(v, (dict, list))}
        for name, below in [p for p in _xml_pairs(inner) if isinstance(p[1], (dict, list))]:
            _xml_tree(((name, below),), made)
    return made


def load_yaml(value: Any) -> Any:
    """
    The C{load_yaml} filter.

    @raises TemplateRuntimeError: with the offending lines, if it is not YAML.
    @raises TypeError: it is not text.
    """
    text = str(value) if isinstance(value, TemplateModule) else value
    if not isinstance(text, (str, bytes)) and not hasattr(text, "read"):
        raise TypeError("a string or stream input is required")
    try:
        return _texts(safe_load(text))
    except YAMLError as error:
        problem = getattr(error, "problem", None)
        mark = getattr(error, "problem_mark", None)
        if mark is None or not isinstance(text, str):
            raise TemplateRuntimeError(f"Encountered error loading yaml: {error}") from error
        where = excerpt(text, mark.line + 1, marker=MARKER)
        raise TemplateRuntimeError(f"Encountered error loading yaml: {problem}\n{where}") from error
    except AttributeError as error:
        raise TemplateRuntimeError(f"Unable to load yaml from {text}") from error


def _texts(value: Any) -> Any:
    """Bytes (C{!!binary}) as texts wherever they are valid UTF-8, as Salt's C{data.decode}."""
    if isinstance(value, dict):
        return {_texts(key): _texts(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_texts(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def load_json(value: Any) -> Any:
    """
    The C{load_json} filter.

    @raises TemplateRuntimeError: it is not JSON.
    """
    text = str(value) if isinstance(value, TemplateModule) else value
    try:
        return json.loads(text)
    except (ValueError, TypeError, AttributeError) as error:
        raise TemplateRuntimeError(f"Unable to load json from {text}") from error


def load_text(value: Any) -> Any:
    """The C{load_text} filter."""
    return str(value) if isinstance(value, TemplateModule) else value


_SERIALISERS: dict[str, Callable[..., Any]] = {
    "yaml": format_yaml,
    "json": format_json,
    "xml": format_xml,
    "python": format_python,
    "load_yaml": load_yaml,
    "load_json": load_json,
    "load_text": load_text,
    "dict_to_sls_yaml_params": sls_params,
    "tojson": tojson,
    "combinations": itertools.combinations,
    "combinations_with_replacement": itertools.combinations_with_replacement,
    "compress": itertools.compress,
    "permutations": itertools.permutations,
    "product": itertools.product,
    "zip": zip,
    "zip_longest": itertools.zip_longest,
}

FILTERS = {name: strict(function) for name, function in _SERIALISERS.items()}
"""The filters that Salt's Jinja extension brings, guarded against hidden undefineds."""


class SaltExtension(Extension):
    """
    The tags C{load_yaml load_json load_text import_yaml import_json import_text profile}.

    @ivar clock: seconds for C{profile}; set by the engine.
    @ivar tell: takes the line that C{profile} logs.
    """

    tags = {
        "load_yaml",
        "load_json",
        "load_text",
        "import_yaml",
        "import_json",
        "import_text",
        "profile",
    }

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.clock: Callable[[], float] = float
        self.tell: Callable[[str, str], None] = _silent
        environment.filters.update(FILTERS)
        chosen = environment.finalize
        environment.finalize = (
            printable if chosen is None else lambda value: chosen(printable(value))
        )

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Called by Jinja at one of our tags."""
        tag = parser.stream.current.value
        if tag.startswith("load_"):
            return [self._parse_load(parser, tag)]
        if tag.startswith("import_"):
            return self._parse_import(parser, tag)
        return self._parse_profile(parser)

    def _parse_load(self, parser: Parser, name: str) -> nodes.Node:
        line = next(parser.stream).lineno
        parser.stream.expect("name:as")
        target = parser.parse_assign_target()
        body = parser.parse_statements(("name:endload",), drop_needle=True)
        converter = nodes.Filter(None, name, [], [], None, None, lineno=line)
        return nodes.AssignBlock(target, converter, body, lineno=line)

    def _parse_import(self, parser: Parser, tag: str) -> list[nodes.Node]:
        imported = parser.parse_import()
        line = imported.lineno
        converter = nodes.Filter(
            nodes.Name(imported.target, "load", lineno=line),
            tag.replace("import", "load", 1),
            [],
            [],
            None,
            None,
            lineno=line,
        )
        name = nodes.Name(imported.target, "store", lineno=line)
        body: list[nodes.Node] = [imported, nodes.Assign(name, converter, lineno=line)]
        return self._timed(parser, imported.template, tag, body, line)

    def _parse_profile(self, parser: Parser) -> list[nodes.Node]:
        line = next(parser.stream).lineno
        parser.stream.expect("name:as")
        label = parser.parse_expression()
        body = parser.parse_statements(("name:endprofile",), drop_needle=True)
        return self._timed(parser, label, "profile block", body, line)

    def _timed(
        self, parser: Parser, label: nodes.Expr, what: str, body: list[nodes.Node], line: int
    ) -> list[nodes.Node]:
        """The body between two calls of ours, in the same scope."""
        begun = f"_profile_{parser.free_identifier().name}"
        start = self.call_method(
            "profile_start", [label, nodes.Const(what, lineno=line)], lineno=line
        )
        end = self.call_method("profile_end", [nodes.Name(begun, "load", lineno=line)], lineno=line)
        return [
            nodes.Assign(nodes.Name(begun, "store", lineno=line), start, lineno=line),
            *body,
            nodes.ExprStmt(end, lineno=line),
        ]

    def profile_start(self, label: Any, what: str) -> tuple[Any, str, float]:
        """Runs where a profiled block begins."""
        return label, what, self.clock()

    def profile_end(self, begun: tuple[Any, str, float]) -> None:
        """Runs where a profiled block ends."""
        label, what, since = begun
        seconds = self.clock() - since
        self.tell("profile", f"Time (in seconds) to render {what} '{label}': {seconds}")


def _silent(level: str, message: str) -> None:
    """Before an engine takes over."""
