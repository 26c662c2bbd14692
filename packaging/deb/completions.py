"""
Writes a shell's completion file: completions.py bash|fish|zsh DIRECTORY.

What is completed is decided by C{saltwisted complete}; a shell's file only asks it.
"""

from __future__ import annotations

import sys
from pathlib import Path

NAMES = "saltwisted salt salt-call salt-cp salt-key salt-run"

BASH = f"""# bash completion for saltwisted and Salt's command names
_saltwisted() {{
    local IFS=$'\\n'
    local line="${{COMP_LINE:0:COMP_POINT}}" word="${{COMP_WORDS[COMP_CWORD]}}"
    # A colon or equals sign breaks words in bash; the last whole word is what counts
    local last="${{line##* }}"
    local -a words=("${{COMP_WORDS[@]:0:COMP_CWORD}}" "$last")
    COMPREPLY=($(saltwisted complete -- "${{words[@]}}" 2>/dev/null))
    local skip="${{last%"$word"}}"
    [ -z "$skip" ] || COMPREPLY=("${{COMPREPLY[@]#"$skip"}}")
    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _saltwisted {NAMES}
"""

ZSH = f"""#compdef {NAMES}
local -a found
found=(${{(f)"$(saltwisted complete -- "${{(@)words[1,CURRENT]}}" 2>/dev/null)"}})
if (( $#found )); then compadd -a found; else _files; fi
"""

# fish loads a file by the command's name: this one is there under each, and may be read twice
FISH = "\n".join(
    f"complete -c {name} -e\n"
    f"complete -c {name} -a '(saltwisted complete -- (commandline -opc) (commandline -ct))'"
    for name in NAMES.split()
)


def main(shell: str, directory: str) -> None:
    """Write one file."""
    name, text = {
        "bash": ("saltwisted.bash", BASH),
        "fish": ("saltwisted.fish", "# fish completion for saltwisted\n" + FISH + "\n"),
        "zsh": ("_saltwisted", ZSH),
    }[shell]
    (Path(directory) / name).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
