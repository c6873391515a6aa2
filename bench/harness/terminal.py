"""What a person sees in the terminal: progress while it runs, tables at the end."""

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from .allocators import OURS
from .asked import asked_table
from .tables import (not_first_table, overall_table, ratio_table, rows_table, second_runs_table,
                     trouble_table)

STYLES = {"best": "bold green", "ahead": "bold green", "behind": "red", "": ""}
# Columns of the overall table that a terminal has room for.
OVERALL = ("allocator", "version", "time", "time 95 %", "CPU", "peak RSS", "RSS 95 %",
           "minor faults", "time wins", "RSS wins", "rows")


# What a file or pipe gets, where there is no terminal to ask.
PIPE_WIDTH = 150


def make_console():
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


class Reporter:
    """Progress of a campaign: one bar, and lines for what goes wrong."""

    def __init__(self, trials_per_pass):
        self.console = make_console()
        self.trials_per_pass = trials_per_pass
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"),
            TimeRemainingColumn(), console=self.console, transient=True)
        self.task = self.progress.add_task("warm-up", total=None, what="")

    def __enter__(self):
        self.progress.start()
        return self

    def __exit__(self, *_):
        self.progress.stop()

    def trial(self, pass_number, row, allocator):
        """Called before each trial; pass 0 is the warm-up."""
        self.progress.update(self.task, what=f"{row}, {allocator}",
                             description=f"pass {pass_number}" if pass_number else "warm-up")
        if pass_number:
            self.progress.advance(self.task)

    def planned(self, done, passes, left_out):
        """So many passes in all; those that are not done without `left_out` pairs of row and
        peer."""
        trials = (passes - done) * (self.trials_per_pass - left_out)
        self.progress.update(self.task, total=self.progress.tasks[0].completed + trials)
        if done and passes > done:
            self.console.print(f"{passes} passes in all; from now on without {left_out} of "
                               f"{self.trials_per_pass} pairs of row and peer, which are far "
                               f"behind or failed", highlight=False)
        elif done:
            self.console.print(f"[yellow]the time is enough for {passes} passes only, too few for "
                               f"bounds; --minutes or --passes asks for more[/]", highlight=False)

    def skipped(self, row, reason):
        self.console.print(f"[yellow]row {row} skipped:[/] {escape(reason)}", highlight=False)

    def failed(self, row, allocator, reason):
        self.console.print(f"[red]{row} under {allocator}:[/] {escape(reason)}",
                           highlight=False)

    def interrupted(self, passes, reason):
        """By a person, who gives no reason, or by what makes a further trial impossible."""
        why = f": {escape(reason)}" if reason else ""
        self.console.print(f"[yellow]interrupted{why}; the {passes} whole passes are reported[/]",
                           highlight=False)


def rich_table(table, columns=None):
    """A table of tables.py with the named columns, or all."""
    kept = [index for index, name in enumerate(table.header)
            if columns is None or name in columns]
    drawn = RichTable(title=table.title, caption=table.note, title_justify="left",
                      caption_justify="left", title_style="bold", header_style="bold",
                      row_styles=["", "on grey7"], box=None, pad_edge=False)
    for index in kept:
        drawn.add_column(table.header[index], justify="left" if index < table.left else "right",
                         no_wrap=not (table.wraps and index < table.left))
    for row in table.rows:
        style = "bold magenta" if row[0].text == OURS else ""
        texts = {i: escape(row[i].text) for i in kept}
        drawn.add_row(*(f"[{STYLES[row[i].mark]}]{text}[/]" if row[i].mark else text
                        for i, text in texts.items()), style=style)
    return drawn


def print_report(analysis, curves):
    """Row by row, what was not first or not measured, overall, and what was asked."""
    console = make_console()
    tables = [rows_table(analysis, "time"), rows_table(analysis, "rss")]
    if OURS not in analysis.names:
        tables = [ratio_table(analysis, "time"), ratio_table(analysis, "rss")]
    tables += [not_first_table(analysis), trouble_table(analysis), second_runs_table(analysis)]
    for table in tables:
        if table.rows:
            console.print(rich_table(table), "")
    console.print(rich_table(overall_table(analysis), OVERALL))
    if OURS in analysis.names:
        console.print("", rich_table(asked_table(analysis, curves)))
