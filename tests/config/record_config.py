"""
Records what stock Salt makes of configuration files, for C{test_stock.py}.

Run with the Python of a stock Salt 3008.2::

    python tests/config/record_config.py > tests/config/config_cases.json

It lives in one temporary directory, starts nothing, and is not part of the test run.
"""

import json
import logging
import os
import sys
import tempfile
from pathlib import Path

import salt.config

CASES = {
    "empty": {"role": "both", "files": {"ROLE": "# nothing\n"}},
    "root_dir": {
        "role": "both",
        "files": {
            "ROLE": "root_dir: @/root\nid: one\ncachedir: c\npki_dir: /p/q\nlog_file: l.log\n"
        },
    },
    "root_dir_inside": {
        "role": "both",
        "files": {
            "ROLE": "root_dir: @/root/\nid: one\npki_dir: @/root/pki\nlog_file: udp://h:514\n"
        },
    },
    "logs": {"role": "both", "files": {"ROLE": "id: one\nlog_dir: /l\n"}},
    "logs_relative": {"role": "both", "files": {"ROLE": "id: one\nlog_dir: /l\nlog_file: x\n"}},
    "long_sock_dir": {
        "role": "both",
        "files": {"ROLE": "id: one\ncachedir: /c\nsock_dir: /very/long/socket/directory\n"},
    },
    "domain": {"role": "both", "files": {"ROLE": "id: one\nappend_domain: ex.org\n"}},
    "domain_there": {"role": "both", "files": {"ROLE": "id: a.ex.org\nappend_domain: ex.org\n"}},
    "domain_dot": {"role": "both", "files": {"ROLE": "id: a.\nappend_domain: ex.org\n"}},
    "number_id": {"role": "both", "files": {"ROLE": "id: 0123\n"}},
    "minion_id": {
        "role": "both",
        "files": {"ROLE": "root_dir: @/root\n", "root/etc/salt/minion_id": "remembered\nx\n"},
    },
    "minion_id_bom": {
        "role": "minion",
        "files": {"ROLE": "root_dir: @/root\n", "root/etc/salt/minion_id": "\ufeffbom\n"},
    },
    "minion_id_domain": {
        "role": "both",
        "files": {
            "ROLE": "root_dir: @/root\nappend_domain: d\nminion_id_lowercase: true\n",
            "root/etc/salt/minion_id": "Web\n",
        },
    },
    "includes": {
        "role": "both",
        "files": {
            "ROLE": "id: one\nopen_mode: true\nmine: {a: 1}\nhash_type: md5\n"
            "include: extra/*.yml\n",
            "ROLE.d/20.conf": "hash_type: sha512\nnodes: [a, b]\nmap: {x: 1, y: {z: 1}}\n",
            "ROLE.d/10.conf": "hash_type: sha1\nnodes: [b, c]\nmap: {x: 0, y: {w: 2}}\n"
            "mine: {b: 2}\n",
            "ROLE.d/ignored.txt": "hash_type: nonsense\n",
            "ROLE.d/.hidden.conf": "hash_type: nonsense\n",
            "extra/a.yml": "hash_type: SHA224\nmap: {q: 9}\ninclude: deeper/one.conf\n",
            "extra/deeper/one.conf": "deep: yes\nhash_type: sha384\n",
        },
    },
    "default_include": {
        "role": "both",
        "files": {
            "ROLE": "id: one\ndefault_include: other/*.x\n",
            "ROLE.d/10.conf": "user: never\n",
            "other/1.x": "user: me\nschedule: {a: {function: f.f, seconds: 1}}\n",
            "other/2.x": "schedule: {b: {function: f.f, seconds: 1}}\n",
        },
    },
    "include_list": {
        "role": "both",
        "files": {
            "ROLE": "id: one\ninclude: [a.conf, '@/b.conf', missing.conf]\nuser: main\n",
            "a.conf": "user: a\n",
            "b.conf": "user: b\nlist: [1]\n",
        },
    },
    "roots": {
        "role": "both",
        "files": {
            "ROLE": "id: one\nfile_roots:\n  base: ['@/r/*', /zzz]\n  none:\n"
            "pillar_roots:\n  base: [/p]\n  text: /not/a/list\n",
            "r/b/x": "",
            "r/a/x": "",
        },
    },
    "roots_empty": {"role": "both", "files": {"ROLE": "id: one\nfile_roots: {}\n"}},
    "backends": {
        "role": "both",
        "files": {"ROLE": "id: one\nfileserver_backend: [git, roots, minion]\n"},
    },
    "environment": {"role": "both", "files": {"ROLE": "id: one\nenvironment: dev\n"}},
    "environment_both": {
        "role": "both",
        "files": {"ROLE": "id: one\nenvironment: dev\nsaltenv: prod\n"},
    },
    "yaml": {
        "role": "both",
        "files": {
            "ROLE": "id: one\nmode: 0644\nwhen: 2026-01-02\noff: off\nyes: y\n"
            "big: 1_000\nhex: 0x10\n"
            "float: 1e3\nnull: ~\nsexa: 12:30:45\nanchors: &a {x: 1}\nmerged: {<<: *a, y: 2}\n"
            "binary: !!binary aGVsbG8\ntext: |\n  two\n  lines\nset: !!set {a, b}\n"
        },
    },
    "coerced": {
        "role": "both",
        "files": {"ROLE": "id: one\nuser: root\ntimeout: 9\nkeysize: 4096\nhash_type: SHA256\n"},
    },
    "ssl_true": {"role": "both", "files": {"ROLE": "id: one\nssl: true\n"}},
    "ssl_false": {"role": "both", "files": {"ROLE": "id: one\nssl: false\n"}},
    "open_mode_word": {"role": "both", "files": {"ROLE": "id: one\nopen_mode: 'yes'\n"}},
    "auto_accept_number": {"role": "master", "files": {"ROLE": "id: one\nauto_accept: 1\n"}},
    "extension_modules": {"role": "both", "files": {"ROLE": "id: one\nextension_modules: /x\n"}},
    "no_extension_modules": {
        "role": "both",
        "files": {"ROLE": "id: one\ncachedir: /c\nextension_modules: ''\n"},
    },
    "returners": {"role": "both", "files": {"ROLE": "id: one\nreturn: [redis, smtp]\n"}},
    "ignore": {
        "role": "master",
        "files": {"ROLE": "id: one\nfile_ignore_regex: ['a.*', '(']\nfile_ignore_glob: '*.pyc'\n"},
    },
    "ignore_text": {"role": "master", "files": {"ROLE": "id: one\nfile_ignore_regex: 'a.*'\n"}},
    "nodegroups_list": {
        "role": "master",
        "files": {"ROLE": "id: one\nnodegroups:\n  - a: web*\n  - b: [x, y]\n"},
    },
    "nodegroups_none": {"role": "master", "files": {"ROLE": "id: one\nnodegroups:\n"}},
    "rest_auth": {"role": "master", "files": {"ROLE": "id: one\nexternal_auth: {rest: {}}\n"}},
    "autosign": {
        "role": "master",
        "files": {"ROLE": "id: one\nroot_dir: @/root\nautosign_file: a\nautoreject_file: /b\n"},
    },
    "cluster": {"role": "master", "files": {"ROLE": "id: one\ncluster_peers: [a]\n"}},
    "key_logfile": {
        "role": "minion",
        "files": {"ROLE": "id: one\nroot_dir: @/r\nkey_logfile: k\n"},
    },
    "masters": {"role": "minion", "files": {"ROLE": "id: one\nmaster: [a, 'b:4507']\n"}},
    "beacons": {"role": "minion", "files": {"ROLE": "id: one\nbeacons: {load: [{a: 1}]}\n"}},
    "config_dirs": {
        "role": "minion",
        "files": {
            "ROLE": "id: one\nappend_minionid_config_dirs: [pki_dir, cachedir, pidfile]\n"
            "pki_dir: /p\ncachedir: /c\npidfile: /r/m.pid\n"
        },
    },
    "grains": {"role": "minion", "files": {"ROLE": "id: one\ngrains: {roles: [a]}\n"}},
    "own_data": {"role": "both", "files": {"ROLE": "id: one\nmysite: {a: [1]}\nmysql.host: db\n"}},
    "id_is_empty": {
        "role": "minion",
        "files": {"ROLE": "root_dir: @/root\nid: ''\n", "root/etc/salt/minion_id": "kept"},
    },
    "publish_port": {"role": "both", "files": {"ROLE": "id: one\npublish_port: 5505\n"}},
}


def plain(value):
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__name__ == "ImmutableList":
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "ImmutableSet":
        return sorted(plain(item) for item in value)
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    return value


def answer(role, scratch):
    path = os.path.join(scratch, role)
    load = salt.config.master_config if role == "master" else salt.config.minion_config
    try:
        opts = load(path)
    except Exception as error:
        return {"error": type(error).__name__}
    # the order of what a wild card finds is the disk's; ours is sorted
    opts["file_roots"] = {env: sorted(dirs) for env, dirs in opts["file_roots"].items()}
    return json.loads(json.dumps(plain(opts)).replace(scratch, "@"))


def main():
    logging.disable(logging.CRITICAL)
    os.environ.pop("SALT_CONFIG_DIR", None)
    sys.argv[0] = "program"
    defaults = {
        "master": plain(salt.config.DEFAULT_MASTER_OPTS),
        "minion": plain(salt.config.DEFAULT_MINION_OPTS),
    }
    recorded = []
    for name, case in CASES.items():
        for role in ("master", "minion") if case["role"] == "both" else (case["role"],):
            with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
                files = {}
                for where, text in case["files"].items():
                    files[where.replace("ROLE", role)] = text
                for where, text in files.items():
                    path = Path(scratch, where)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text.replace("@", scratch), encoding="utf-8")
                opts = answer(role, scratch)
                changed = {
                    key: value
                    for key, value in opts.items()
                    if key not in defaults[role] or defaults[role][key] != value
                }
                recorded.append({"name": name, "role": role, "files": files, "opts": changed})
    lines = ",\n".join(json.dumps(case) for case in recorded)
    sys.stdout.write(f'{{"defaults": {json.dumps(defaults)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
