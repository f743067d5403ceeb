"""Write the table of the last results into README.md, from results.json.

python tests/benchmarks/write_readme.py
"""

from __future__ import annotations

from pathlib import Path

from payrec.bench.figures import page_rows, read_programs, read_results

FOLDER = Path(__file__).parent
BEGIN = "|---|---|---|---|---|---|---|---|\n"
END = "\n\n"


def written(text: str) -> str:
    """Return the page with the table of the results that are stored."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    results = read_results(FOLDER / "results.json", read_programs(FOLDER / "figures.toml"))
    return head + BEGIN + "\n".join(page_rows(results)) + END + tail


if __name__ == "__main__":
    page = FOLDER / "README.md"
    page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
