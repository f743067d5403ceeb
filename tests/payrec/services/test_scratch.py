"""Folders for a while: each process has its own, and what killed ones have left is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from payrec.services.scratch import PREFIX, scratch_folder

_PROGRAM = """
import sys
from payrec.services.scratch import scratch_folder

with scratch_folder() as folder:
    (folder / "lines").write_text("much")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def another_process(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process that has a folder, and return it with the folder."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_is_gone_at_the_end_with_what_is_in_it(temporary: Path) -> None:
    with scratch_folder() as folder, scratch_folder() as other:
        assert folder != other
        assert {folder.parent, other.parent} == {temporary}
        (folder / "lines").write_text("much")
    with pytest.raises(ValueError, match="a defect"), scratch_folder() as folder:
        raise ValueError("a defect")
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_has_left_is_removed_and_what_a_living_one_has_is_not(temporary: Path) -> None:
    with another_process(temporary) as (living, kept), another_process(temporary) as (killed, left):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "lines").exists()
        with scratch_folder() as folder:
            assert set(temporary.iterdir()) == {kept, folder}
        assert living.poll() is None
        assert (kept / "lines").read_text() == "much"


def test_what_is_not_a_folder_of_ours_stays(temporary: Path) -> None:
    (temporary / "elsewhere").mkdir()
    (temporary / f"{PREFIX}link").symlink_to(temporary / "elsewhere")
    (temporary / f"{PREFIX}file").touch()
    with scratch_folder():
        pass
    assert {path.name for path in temporary.iterdir()} == {"elsewhere", f"{PREFIX}link", f"{PREFIX}file"}


def test_one_that_was_taken_for_left_while_it_was_made_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, []

    def removed(**given: str) -> str:
        made.append(make(**given))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed)
    with scratch_folder() as folder:
        assert [str(folder)] == made[1:]
    assert list(temporary.iterdir()) == []
