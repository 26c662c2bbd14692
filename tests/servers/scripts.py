"""
All scripts, and the server of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.servers import clusters, mysql, postgres, rabbitmq
from tests.servers.script import Script, Server

SCRIPTS: Mapping[str, Callable[[Script], None]] = {
    **postgres.SCRIPTS,
    **clusters.SCRIPTS,
    **mysql.SCRIPTS,
    **rabbitmq.SCRIPTS,
}
SERVERS: Mapping[str, type[Server]] = {
    **dict.fromkeys(postgres.SCRIPTS, postgres.Postgres),
    "postgres_refused": postgres.Nowhere,
    **dict.fromkeys(clusters.SCRIPTS, clusters.Clusters),
    **dict.fromkeys(mysql.SCRIPTS, mysql.MariaDb),
    "mysql_refused": mysql.Nowhere,
    **dict.fromkeys(rabbitmq.SCRIPTS, rabbitmq.RabbitMq),
}
