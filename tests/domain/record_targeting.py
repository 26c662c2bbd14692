"""
Records what stock Salt answers to many targets, for C{test_targeting.py}.

Run with the Python of a stock Salt 3008.5::

    python tests/domain/record_targeting.py > tests/domain/targeting_cases.json

It lives in one temporary directory, starts nothing, and is not part of the test run.
"""

import json
import logging
import random
import sys
import tempfile
from pathlib import Path

import salt.cache
import salt.config
import salt.loader
import salt.utils.minions

MINIONS = {
    "web1.example.com": {
        "grains": {
            "os": "Debian",
            "os_family": "Debian",
            "osrelease": "12.4",
            "osmajorrelease": 12,
            "ipv4": ["127.0.0.1", "10.0.0.11"],
            "ipv6": ["::1", "fd00::11"],
            "roles": ["web", "frontend"],
            "locale_info": {"defaultlanguage": "en_US", "detected:encoding": "utf-8"},
            "disks": {"sda": {"size": 100}, "sdb": {"size": 200}},
            "fqdn": "web1.example.com",
            "virtual": True,
            "nothing": None,
            "path": "/opt:/usr",
            "1": "one",
        },
        "pillar": {"app": {"name": "Shop", "ports": [80, 443]}, "secret": "S3cr3t*", "n": 5},
    },
    "web2.example.com": {
        "grains": {
            "os": "Ubuntu",
            "os_family": "Debian",
            "osmajorrelease": 22,
            "ipv4": ["127.0.0.1", "10.0.0.12", "192.168.7.2"],
            "roles": ["web", {"cluster": "blue", "7": "seven"}],
            "fqdn": "web2.example.com",
            2: "two",
            "virtual": False,
        },
        "pillar": {"app": {"name": "shop", "ports": [8080]}, "secret": "S3cr3tX"},
    },
    "db1": {
        "grains": {
            "os": "CentOS",
            "os_family": "RedHat",
            "ipv4": ["10.1.0.1"],
            "ipv6": ["2001:db8::5"],
            "roles": "db",
            "matrix": [[1, 2], [3, 4]],
            "a": {"b": {"c": "d", "e:f": "g"}, "b:c": "flat"},
        },
        "pillar": {"a": {"*": "star"}, "list": [{"k": "v"}, {"k": ["x", "y"]}]},
    },
    "db2": {"grains": {"os": "CentOS Stream", "ipv4": "10.1.0.2", "a": {"b": {}}}, "pillar": {}},
    "we(ird)+id": {"grains": {"os": "BSD"}, "pillar": {"x": {"y": {"z": 1}}}},
    "silent": {},
}

NODEGROUPS = {
    "web": "web*",
    "dbs": ["db1", "db2"],
    "dbline": "db1,db2",
    "debian": "G@os_family:Debian and web*",
    "either": "db1 or db2",
    "nested": "N@web or N@dbs",
    "deep": "N@nested and not N@either",
    "circle": "N@circle2 or db1",
    "circle2": ["N@circle"],
    "self": "N@self",
    "regex": ["web[12].*", "db?"],
    "empty": "",
    "emptylist": [],
    "words": ["G@os:Debian", "or", "E@db.*"],
    "mapping": {"a": 1},
    "onemissing": "N@absent",
}

NESTED = [
    "os:Debian", "os:debian", "OS:Debian", "os:*", "os:D*", "os:Cent*", "os:CentOS*", "os", "os:",
    ":", "", "*", "*:*", "roles:web", "roles:w*", "roles:cluster", "roles:cluster:blue",
    "roles:1:cluster:blue", "roles:0", "roles:7", "roles:7:seven", "roles:0:web", "roles:1",
    "locale_info:defaultlanguage:en_US", "locale_info:*", "locale_info:default*", "*:en_us",
    "locale_info:detected:encoding:utf-8", "locale_info:detected:encoding", "disks:sda:size:100",
    "disks:*:size:100", "disks:*:size:300", "disks:sda", "disks:*:size", "osmajorrelease:12",
    "osmajorrelease:1*", "virtual:True", "virtual:true", "nothing:None", "nothing:*", "1:one",
    "2:two", "path:/opt:/usr", "path:/opt", "matrix:0:1:2", "matrix:1:0", "matrix:*", "a:b:c:d",
    "a:b:c", "a:b:c:flat", "a:b:e:f:g", "a:b:e:f", "a:b", "a:*:c:d", "a:*:*:d", "*:b:c:d", "a:b:*",
    "os:[CD]*", "os:(debian|ubuntu)", "os:^D", "os:.*", "os:[", "os:(", "os_family:Debian",
    "app:name:shop", "app:name:Shop", "app:ports:80", "app:ports:0:80", "app:ports:*",
    "secret:S3cr3t*", "secret:s3cr3tx", "n:5", "list:k:v", "list:k:x", "list:k:*", "list:0:k:v",
    "list:1:k:0:x", "x:y:z:1", "x:y:z", "x:*:z:1", "*:y:z:1", "a:*:star", "a:*", "n:*", "os:\\S+",
    "ipv4:10.0.0.11", "ipv4:10.0.*", "ipv4:0:127.0.0.1", "ipv4:-1:10.*", "roles:-1:cluster:blue",
    "disks:sd?", "disks:SD?", "disks:x*", "disks:*:s?ze", "roles:cl*", "roles:[7]", "a:b:[ce]",
    "a:?", "a:*:[ce]", "*:sd[a-z]", "app:na*", "app:n.*", "list:[k]", "x:*:z*", "x:Y",
]  # fmt: skip

PLAIN = {
    "glob": [
        "*", "web*", "web?.example.com", "db[12]", "db[!1]", "db1", "DB1", "", "nobody",
        "web1*,db1",
        "db1,db2", "we(ird)+id", "*ird*", "[", "*.example.com", "silent", None, 5,
    ],
    "pcre": [
        "web.*", "db[0-9]$", "(web1|db1)", "", "e", ".*\\.com", "(", "[", "we\\(ird\\)\\+id", "DB1",
        "(?i)DB1", "silent|web",
    ],
    "list": [
        "db1", "db1,db2", "db1,,db2", "nobody", "db1,nobody", "", ",", ["db1", "db2"], ["nobody"],
        [], "web1", "db1, db2", "silent",
    ],
    "ipcidr": [
        "10.0.0.11", "10.0.0.0/24", "10.0.0.0/8", "10.0.0.1/8", "127.0.0.0/8", "192.168.7.2/32",
        "fd00::11", "fd00::/64", "2001:db8::/32", "nonsense", "", "0.0.0.0/0", "10.1.0.2", "::/0",
    ],
    "nodegroup": [*NODEGROUPS, "absent"],
    "data": ["a:b", "a", ""],
    "bogus": ["x"],
}  # fmt: skip

COMPOUND = [
    "", "*", "web*", "web* and db*", "web* or db*", "web* and not db1", "not web*", "not not web*",
    "( web* )", "( web* or db* ) and G@os:Debian", "web* db*", "web* not db1", "and web*",
    "or", "not",
    "web* and", "web* or not", "( )", "not ( )", "web* or ( )", "( web*", "web* )", ") web* (",
    "( ( web* ) or db1 ) and not ( db2 or web2* )", "( and web* )", "( not web* )", "(web*)",
    "G@os:Debian", "G@os_family:Debian and not G@os:Ubuntu", "P@os:(Debian|Ubuntu)",
    "I@app:name:shop",
    "J@app:name:sh.p", "I@secret:S3cr3t*", "L@db1,db2", "L@db1,nobody", "not L@db1,nobody",
    "web* or L@nobody", "S@10.0.0.0/24", "S@nonsense or db1", "E@web.*", "E@db\\d", "E@( or db1",
    "R@%cluster", "D@a:b", "X@os:Debian", "N@web", "N@dbs", "N@nested", "N@deep", "N@absent",
    "web* or N@absent", "web* N@absent", "not N@absent", "not N@either", "not N@dbs",
    "not N@nested",
    "N@circle", "N@self or db1", "N@empty", "N@emptylist", "N@emptylist or db1", "N@regex",
    "N@words and db*", "N@mapping or db1", "N@onemissing", "G;@os;Debian", "G@", "G@:", "L@", "N@",
    "E@", "G@os", "G|@os|Cent*", "I;@app;name;Shop", "P@os:.*S$", "G@roles:web or G@roles:db",
    "M@db1", "M@web*", "G@a:b:c:d and db1 or web1*", "web1* or db1 and db2", "web* and db1 or db2",
    "not web* and not db*", "not web* or web1*", "not ( web* and db1 )", "( db1 ) ( db2 )",
    "db1 ( db2 )", "And web*", "web* AND db1", "  db1   or\tdb2 ", "( ( ( db1 ) ) )", "( ( db1 )",
    "not ( not db1 )", "db1 or or db2", "db1 and and db2", "( db1 or )", "web* or not ( db1",
    "not ( db1 or ( db2 and web* ) or silent", "web*,db1", "L@web1.example.com,db1 and web*",
    ["db1", "or", "db2"], ["web*"], [], ["not", "db1"], {"a": 1}, 5, None,
]  # fmt: skip

DELIMITED = [
    ("grain", "os|Debian", "|"), ("grain", "a.b.c.d", "."), ("grain", "a/b/c", "/"),
    ("grain", "os:Debian", "|"), ("grain", "a|b:c|flat", "|"), ("grain", "*|en_us", "|"),
    ("grain", "disks|*|size|100", "|"), ("grain_pcre", "os|D.*", "|"),
    ("pillar", "app|name|sho?", "|"),
    ("pillar_pcre", "app|name|sho.", "|"), ("pillar_exact", "app|name|shop", "|"),
]  # fmt: skip


def random_expressions(seed, count):
    dice = random.Random(seed)
    operands = [
        "web*",
        "db1",
        "G@os:Debian",
        "L@db2,silent",
        "N@either",
        "E@.*1",
        "I@n:5",
        "S@10.0.0.0/8",
    ]
    glue = ["and", "or", "not", "(", ")"]
    for _ in range(count):
        words = [
            dice.choice(operands if dice.random() < 0.5 else glue)
            for _ in range(dice.randint(2, 9))
        ]
        yield " ".join(words)


def well_formed(dice, depth):
    if depth == 0 or dice.random() < 0.3:
        return dice.choice(
            ["web*", "db?", "G@os_family:Debian", "L@db2,silent", "N@nested", "E@.*1.*"]
        )
    kind = dice.randrange(4)
    if kind == 0:
        return "not " + well_formed(dice, depth - 1)
    if kind == 1:
        return f"( {well_formed(dice, depth - 1)} )"
    glue = " and " if kind == 2 else " or "
    return well_formed(dice, depth - 1) + glue + well_formed(dice, depth - 1)


def targets():
    for kind in ("grain", "grain_pcre", "pillar", "pillar_pcre", "pillar_exact"):
        for expression in NESTED:
            yield kind, expression, ":"
    for kind, expressions in PLAIN.items():
        for expression in expressions:
            yield kind, expression, ":"
    for expression in COMPOUND:
        yield "compound", expression, ":"
        yield "compound_pillar_exact", expression, ":"
    for kind, expression, delimiter in DELIMITED:
        yield kind, expression, delimiter
    for expression in random_expressions(11, 150):
        yield "compound", expression, ":"
    dice = random.Random(12)
    for _ in range(80):
        yield "compound", well_formed(dice, 3), ":"


def main():
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        Path(scratch, "master").write_text(f"root_dir: {scratch}\nid: m\n")
        opts = salt.config.master_config(str(Path(scratch, "master")))
        opts["nodegroups"] = NODEGROUPS
        for folder in ("minions", "minions_pre", "minions_rejected", "minions_denied"):
            Path(opts["pki_dir"], folder).mkdir(parents=True)
        cache = salt.cache.factory(opts)
        check = salt.utils.minions.CkMinions(opts)
        for name, facts in MINIONS.items():
            Path(opts["pki_dir"], "minions", name).write_text("key")
            for bank, value in facts.items():
                cache.store(bank, name, value)
        questions = list(targets())
        matched = [[] for _ in questions]
        for name, facts in MINIONS.items():
            # one after the other: loaders of one process share their modules
            one = salt.config.minion_config(None, minion_id=name)
            one.update(
                id=name, nodegroups=NODEGROUPS, grains=facts.get("grains", {}),
                pillar=facts.get("pillar", {}),
            )  # fmt: skip
            asker = salt.loader.matchers(one)
            for (kind, expression, delimiter), ids in zip(questions, matched, strict=True):
                load = {"delimiter": delimiter} if kind in ("grain", "grain_pcre", "pillar") else {}
                if kind == "nodegroup":
                    load["nodegroups"] = NODEGROUPS
                try:
                    if asker[f"{kind}_match.match"](expression, **load):
                        ids.append(name)
                except Exception:
                    pass  # the publication is dropped
        cases = []
        for (kind, expression, delimiter), ids in zip(questions, matched, strict=True):
            answer = check.check_minions(expression, kind, delimiter=delimiter)
            shy = check.check_minions(expression, kind, delimiter=delimiter, greedy=False)
            cases.append(
                {
                    "type": kind,
                    "tgt": expression,
                    "delimiter": delimiter,
                    "matched": ids,
                    "selected": sorted(set(answer["minions"])),
                    "missing": list(answer["missing"]),
                    "shy": sorted(set(shy["minions"])),
                }
            )
    document = {"minions": MINIONS, "nodegroups": NODEGROUPS, "cases": cases}
    # a line per case; the grain with a number for a key becomes text in JSON, see the test
    lines = ",\n".join(json.dumps(case) for case in document.pop("cases"))
    head = json.dumps(document, indent=1)[:-2]
    sys.stdout.write(f'{head},\n "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
