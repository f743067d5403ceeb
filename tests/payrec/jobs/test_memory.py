"""How much memory a worker may use: the least that anybody says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from payrec.jobs.memory import memory_limit_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
LIMIT = 512 * 1024 * 1024


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    "files",
    [
        {"sys/fs/cgroup/memory.max": f"{LIMIT}\n"},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes": f"{LIMIT}\n"},
        {"proc/self/cgroup": "0::/pods/one\n", "sys/fs/cgroup/pods/one/memory.max": f"{LIMIT}\n"},
        # Of a group around ours.
        {
            "proc/self/cgroup": "0::/pods/one\n",
            "sys/fs/cgroup/pods/memory.max": f"{LIMIT}\n",
            "sys/fs/cgroup/pods/one/memory.max": "max\n",
        },
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/pods\n4:memory:/pods/one:two\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/pods/one:two/memory.limit_in_bytes": f"{LIMIT}\n",
        },
    ],
    ids=["version 2", "version 1", "version 2, nested", "version 2, around", "version 1, nested"],
)
def test_a_limit_is_found(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, **files)
    assert memory_limit_bytes(tmp_path) == min(LIMIT, MACHINE)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"sys/fs/cgroup/memory.max": "max\n"},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
        {"proc/self/cgroup": "0::/gone\n"},
    ],
    ids=["nothing", "version 2", "version 1", "of a group that is not shown"],
)
def test_without_a_limit_it_is_the_machines_memory(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, **files)
    assert memory_limit_bytes(tmp_path) == MACHINE


def test_this_process_has_one() -> None:
    assert 0 < memory_limit_bytes() <= MACHINE
