"""The tables of the page, in HTML."""

from __future__ import annotations

from collections.abc import Sequence

from scotopic.evaluation.report.results import Results
from scotopic.evaluation.report.summary import Figure, Mask, Row, Table, paired_difference, tabulate, variants
from scotopic.evaluation.report.words import (
    GAP,
    classes_in_words,
    count,
    dataset_name,
    escape,
    figure_name,
    number,
    seconds,
    unit,
    what_is_lacking,
)


def draw_tables(results: Results, tables: Sequence[Table]) -> str:
    """Return every table that is shown, with the words that say how to read them."""
    matched = (
        f" At matched coverage every method keeps as many of its surest pixels, by its own confidence, as "
        f"<b>{escape(results.reference)}</b> answers on the same scene, noise and seed; a method that has no "
        "more answers to give shows a gap there. "
        if results.reference
        else " "
    )
    words = (
        "<p>Plain means over scenes; ± is the standard deviation over seeds. Where a mean is taken over fewer "
        f"scenes x seeds than there are, it says so.{matched}AURC is the mean error along the "
        "risk-coverage curve, AUSE what of it is lost to a wrong ranking; both are over what a method answers at all."
        "</p><p><b>Bold</b> is the least error where the comparison is fair: at matched coverage among all methods, at "
        f"the own mask only among methods of one class of coverage ({classes_in_words()}). Methods with gaps, ceilings "
        "that see the clean pair, and figures reported by the paper, which are copied and not measured here, do not "
        "compete.</p>"
    )
    parts = [words]
    for group in results.groups:
        parts.append(f"<h3>{escape(dataset_name(group.dataset))} · {group.noise}</h3>")
        size = f"{count(len(group.scenes), 'scene')} x {count(len(group.seeds), 'seed')}"
        by_window = {table.window: table for table in tables if table.group is group}
        for table in (by_window[window] for window in results.shown_windows):
            title = f"W = {table.window}" + (", pointwise" if table.window == 1 else "")
            content = _table(table)
            if table.window == results.headline:
                parts.append(f'<p class="soft">{title}, {size}</p>{content}')
            else:
                parts.append(f"<details open><summary>{title}</summary>{content}</details>")
    return "\n".join(parts)


def _table(table: Table) -> str:
    columns = [*table.errors, "coverage"]
    masks: list[tuple[Mask, str]] = [("own", "At its own mask")]
    if table.reference is not None:
        masks.append(("matched", f"At the coverage of {escape(table.reference)}"))
    areas = ["aurc", "ause"]
    over = "".join(f'<th colspan="{len(columns)}" class="start" scope="colgroup">{title}</th>' for _, title in masks)
    heads = "".join(_head(name, k == 0) for _ in masks for k, name in enumerate(columns))
    pieces = len(table.group.pieces)
    lines = []
    width = 1 + len(masks) * len(columns) + len(areas) + 1
    for k, row in enumerate(table.rows):
        if row.kind == "reported" and (k == 0 or table.rows[k - 1].kind != "reported"):
            lines.append(_divider(row, width))
        cells = "".join(
            _cell(row, mask, name, pieces, name == columns[0]) for mask, _ in masks for name in columns
        ) + "".join(_cell(row, "own", name, pieces, name == "aurc") for name in areas)
        time = seconds(row.seconds.mean) if row.seconds else "" if row.kind == "reported" else GAP
        lines.append(f'<tr class="{row.kind}">{_row_head(row, pieces)}{cells}<td class="start">{time}</td></tr>')
    return (
        f'<div class="scroll"><table><thead><tr class="over"><th></th>{over}'
        f'<th colspan="2" class="start" scope="colgroup">Whole curve</th><th class="start"></th></tr>'
        f'<tr><th scope="col">Method</th>{heads}{_head("aurc", True)}{_head("ause", False)}'
        '<th class="start" scope="col">Time</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _head(name: str, is_first: bool) -> str:
    edge = ' class="start"' if is_first else ""
    return f'<th scope="col"{edge}>{escape(figure_name(name))}<small>{unit(name)}</small></th>'


def _divider(row: Row, width: int) -> str:
    words = f"Reported by the paper, {row.own['epe'].pieces} scenes"
    return f'<tr class="divider"><th><span class="name">{words}</span></th><td colspan="{width - 1}"></td></tr>'


def _row_head(row: Row, pieces: int) -> str:
    tag = '<small class="tag">ceiling</small>' if row.kind == "ceiling" else ""
    if row.kind == "reported" and row.spec:
        tag = f'<small class="tag">compare {escape(row.spec)}</small>'
    lacking = "" if row.kind == "reported" else what_is_lacking(row, pieces)
    few = f'<small class="few">{lacking}</small>' if lacking else ""
    return f'<th scope="row"><span class="name" title="{escape(row.method)}">{escape(row.method)}</span>{tag}{few}</th>'


def _cell(row: Row, mask: Mask, name: str, pieces: int, is_first: bool, bold: bool = True) -> str:
    figure = (row.own if mask == "own" else row.matched).get(name)
    edge = " start" if is_first else ""
    if figure is None:
        return f'<td class="gap{edge}">{_why_none(row, mask, name)}</td>'
    digits = number(name, figure.mean)
    shown = f"<b>{digits}</b>" if bold and (mask, name) in row.best else digits
    spread = "" if figure.spread is None else f"<small>± {number(name, figure.spread)}</small>"
    done = pieces - row.failed - row.missing  # beside the name stands what all figures of the row lack
    few = f'<small class="few">{figure.pieces} of {done}</small>' if 0 < figure.pieces < done else ""
    return f'<td class="num{edge}">{shown}{spread}{few}</td>'


def _why_none(row: Row, mask: Mask, name: str) -> str:
    """The words in place of a figure."""
    if name == "coverage" and mask == "own" and row.note:
        return escape(row.note)
    if name == "coverage" and mask == "matched" and row.own.get("epe") is not None and row.kind != "reported":
        return "not reached"
    return "" if row.kind == "reported" else GAP  # a number on paper has no confidence to match a coverage by


def draw_ablations(results: Results) -> str:
    """Return what each variant of a method changes, over the scenes and seeds that both have; often nothing."""
    found = variants(results.methods)
    if not found:
        return ""
    window = results.headline
    names = ["epe", *(f"bad-{k}" for k in results.thresholds), "coverage"]
    heads = "".join(f'{_head(name, is_first=True)}<th scope="col">change</th>' for name in names)
    parts = [
        f"<p>Variants beside the method that they vary, W = {window}, own masks. The change is taken over the scenes "
        "and seeds that both have; an error that falls together with the coverage proves nothing.</p>"
    ]
    for group in results.groups:
        table = tabulate(results, group, window)
        lines = []
        for base, others in found.items():
            for method in [base, *others]:
                row = table.row(method)
                cells = "".join(
                    _cell(row, "own", name, len(group.pieces), True, bold=False)
                    + _change(None if method == base else paired_difference(group, method, base, window, name), name)
                    for name in names
                )
                lines.append(f"<tr>{_row_head(row, len(group.pieces))}{cells}</tr>")
            known = [row for row in table.rows if row.kind == "reported" and row.spec in (base, *others)]
            lines += [_divider(known[0], 1 + 2 * len(names))] if known else []
            for row in known:
                cells = "".join(_cell(row, "own", name, 0, True) + "<td></td>" for name in names)
                lines.append(f'<tr class="reported">{_row_head(row, 0)}{cells}</tr>')
        parts.append(
            f"<h3>{escape(dataset_name(group.dataset))} · {group.noise}</h3>"
            f'<div class="scroll"><table><thead><tr><th scope="col">Method</th>{heads}</tr></thead>'
            f"<tbody>{''.join(lines)}</tbody></table></div>"
        )
    return "\n".join(parts)


def _change(figure: Figure | None, name: str) -> str:
    if figure is None:
        return "<td></td>"
    sign = "+" if figure.mean > 0 else "\N{MINUS SIGN}"
    return f'<td class="num">{sign}{number(name, abs(figure.mean))}</td>'
