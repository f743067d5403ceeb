"""How much memory this process may use, as whoever started it has said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path("/")
"""Where the file systems of control groups and processes are."""


def memory_limit_bytes(root: Path = ROOT) -> int:
    """Return the least of the machine's memory and the limits of our control groups, version 1 or 2."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _limit_files(root):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        # Version 2 writes "max" where there is no limit; version 1 writes a number larger than any machine.
        if text.isdecimal():
            limits.append(int(text))
    return min(limits)


def _limit_files(root: Path) -> list[Path]:
    """Return the files that may limit us. In a container our group is the root of the mount, else a path in it."""
    mounted = root / "sys/fs/cgroup"
    files = [mounted / "memory.max", mounted / "memory/memory.limit_in_bytes"]
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return files
    for line in groups:
        _, controllers, name = line.split(":", 2)
        path = Path(name.lstrip("/"))
        # A limit of a group around ours holds as well.
        if not controllers:
            files += [mounted / group / "memory.max" for group in (path, *path.parents)]
        elif "memory" in controllers.split(","):
            files += [mounted / "memory" / group / "memory.limit_in_bytes" for group in (path, *path.parents)]
    return files
