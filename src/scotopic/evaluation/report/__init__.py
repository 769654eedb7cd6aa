"""The report of a benchmark: tables, plots and pictures from a folder of records."""

from scotopic.evaluation.report.results import Results, read_results
from scotopic.evaluation.report.summary import Figure, Row, Table
from scotopic.evaluation.report.write import write_report

__all__ = ["Figure", "Results", "Row", "Table", "read_results", "write_report"]
