"""Workbooks written in a test, part by part, so that every part can be wrong."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

DATE = 1
"""Style of a cell that is a date."""

Value = str | int | float | None | tuple[int | float | str, int]
"""Text, number, no cell, or a number with its style; text that begins with ``<`` is the cell's XML."""

HEADINGS = ("Date", "Description", "Amount", "Currency")


def letters(index: int) -> str:
    """Return the name of a column, 0 is ``A``."""
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(65 + rest) + name
    return name


def row(number: int, *values: Value) -> str:
    """Return the XML of one row."""
    cells = []
    for index, value in enumerate(values):
        place = f"{letters(index)}{number}"
        if value is None:
            continue
        if isinstance(value, tuple):
            cells.append(f'<c r="{place}" s="{value[1]}"><v>{value[0]}</v></c>')
        elif isinstance(value, str):
            text = f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
            cells.append(value.replace("HERE", place) if value.startswith("<") else text)
        else:
            cells.append(f'<c r="{place}"><v>{value}</v></c>')
    return f'<row r="{number}">{"".join(cells)}</row>'


def table(*rows: Sequence[Value], headings: Sequence[Value] = HEADINGS) -> str:
    """Return the XML of a header and the rows below it, from row 1 on."""
    return "".join(row(number, *cells) for number, cells in enumerate((headings, *rows), start=1))


def workbook(
    *sheets: str,
    states: Sequence[str] = (),
    shared: Iterable[str] | None = None,
    styles: Sequence[int] = (0, 14),
    formats: Mapping[int, str] | None = None,
    from_1904: bool = False,
    parts: Mapping[str, str | bytes] | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """Return a workbook; ``sheets`` are the rows of each, ``shared`` the XML inside each ``si``.

    ``styles`` are the number formats of the cell styles, ``parts`` replace or add parts whole.
    """
    names = [
        f'<sheet name="Sheet {n}" sheetId="{n}" state="{state}" r:id="rId{n}"/>'
        for n, state in enumerate([*states, *["visible"] * (len(sheets) - len(states))], start=1)
    ]
    relations = [
        f'<Relationship Id="rId{n}" Type="{_RELATION}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(sheets) + 1)
    ]
    defined = [
        f'<numFmt numFmtId="{n}" formatCode="{escape(c, {chr(34): "&quot;"})}"/>' for n, c in (formats or {}).items()
    ]
    cell_styles = "".join(f'<xf numFmtId="{n}"/>' for n in styles)
    written: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_RELATION}"><workbookPr date1904="{int(from_1904)}"/>'
        f"<sheets>{''.join(names)}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f"<Relationships>{''.join(relations)}</Relationships>",
        "xl/styles.xml": f"<styleSheet {_MAIN}><numFmts>{''.join(defined)}</numFmts>"
        f'<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs>{cell_styles}</cellXfs></styleSheet>',
    }
    if shared is not None:
        written["xl/sharedStrings.xml"] = f"<sst {_MAIN}>{''.join(f'<si>{s}</si>' for s in shared)}</sst>"
    for number, rows in enumerate(sheets, start=1):
        written[f"xl/worksheets/sheet{number}.xml"] = f"<worksheet {_MAIN}><sheetData>{rows}</sheetData></worksheet>"
    written.update(parts or {})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in written.items():
            archive.writestr(name, data)
    return out.getvalue()


def with_part(data: bytes, name: str, part: bytes) -> bytes:
    """Return the workbook with another part in place of the one of that name."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, part if info.filename == name else old.read(info))
    return out.getvalue()


def part_of(data: bytes, name: str) -> bytes:
    """Return one part."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)
