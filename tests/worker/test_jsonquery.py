"""
The filter C{json_query}.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.process.loader import Loaders

DATA = {"services": [{"name": "http", "port": 80}, {"name": "smtp", "port": 25}]}


class QueryTests(SynchronousTestCase):
    """JMESPath in a template."""

    def test_answers(self) -> None:
        """A template asks nested data, and what is not there is None, as in stock."""
        opts = MinionConfig(id="m1", file_client="local").as_opts()
        functions = Loaders(opts, grains={}, pillar={}, stock=False).modules
        for query, answer in (
            ("services[].port", [80, 25]),
            ("services[?name==`smtp`].port | [0]", 25),
            ("sort_by(services, &port)[0].name", "smtp"),
            ("length(services)", 2),
            ("nothing.here", None),
        ):
            text = "{{ data | json_query(query) | tojson }}"

            found = functions["slsutil.renderer"](
                string=text, default_renderer="jinja|json", data=DATA, query=query
            )

            self.assertEqual(found, answer, query)
