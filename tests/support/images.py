"""The container image as a test sees it: what its recipe says, and what is in one that was built."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.charts import ROOT

DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"
VARIABLE: Final = "PAYREC_TEST_IMAGE"
MISSING: Final = (
    f"{VARIABLE} names no image of buildah (apt-get install buildah): "
    f"buildah build -f deploy/Dockerfile -t localhost/payrec:test . && export {VARIABLE}=localhost/payrec:test"
)

_SETTINGS: Final = {"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "chroot"}
"""How buildah works inside a container as well; what is set already counts."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of a Dockerfile: ``COPY``, and what follows it."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """What follows, without the options."""
        return [word for word in shlex.split(self.rest) if not word.startswith("--")]


def stages(text: str) -> list[list[Instruction]]:
    """Return the instructions of a Dockerfile by stage; what comes before the first is the first list."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[list[Instruction]] = [[]]
    for line in filter(None, joined.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append(Instruction(name, rest.strip()))
    return found


def buildah(*arguments: str, timeout: float = 120) -> str:
    """Run buildah and return what it prints."""
    program = shutil.which("buildah")
    assert program is not None, MISSING
    done = subprocess.run(  # noqa: S603 - our own command
        [program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**_SETTINGS, **os.environ},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Image:
    """An image that was built, as a container that one can run commands in, and as a directory."""

    container: str
    root: Path
    config: dict[str, Any]

    def run(self, *command: str) -> str:
        """Run a command as the image's own user, and return what it prints."""
        return buildah("run", self.container, "--", *command)


@contextmanager
def opened(name: str) -> Iterator[Image]:
    """Open an image for the tests; nothing of it is changed."""
    config = json.loads(buildah("inspect", "--type", "image", name))["OCIv1"]["config"]
    container = buildah("from", "--pull-never", name).strip()
    try:
        root = Path(buildah("mount", container).strip())
        yield Image(container, root, config)
    finally:
        buildah("rm", container)
