"""What was found in a table: said to the user, never swallowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

type Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Problem:
    """One finding about a table.

    Attributes
    ----------
    severity : {"error", "warning", "note"}
        An error refuses the table; a warning says that the answer may mislead;
        a note says what was done or what cannot be estimated.
    what, where, remedy : str
        What was found, where (column, cell, first few rows), what to do.
    rows : int
        Number of rows concerned; 0 where rows are not what is wrong.
    """

    severity: Severity
    what: str
    where: str = ""
    rows: int = 0
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.what} ({self.where})" if self.where else self.what
        return f"{text}. {self.remedy}" if self.remedy else f"{text}."
