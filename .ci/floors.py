"""The lowest versions that pyproject.toml allows, as constraints for pip: `python .ci/floors.py > floors.txt`.

torch stays the version that constraints.txt pins: another build would be gigabytes to fetch, and its floor is held by
the people who run regard with it.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[.*\])?\s*>=\s*(?P<floor>[0-9][0-9a-z.]*)")
PINNED = ("torch",)


def floors() -> list[str]:
    """One line for each dependency that is needed to run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for requirement in project["dependencies"]:
        told = REQUIREMENT.fullmatch(requirement)
        if told is None:
            sys.exit(f"{requirement!r} in pyproject.toml names no lowest version: write name>=version")
        if told["name"] in PINNED:
            found += [line for line in pinned if line.split("==")[0] == told["name"]]
        else:
            found.append(f"{told['name']}=={told['floor']}")
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(floors()) + "\n")
