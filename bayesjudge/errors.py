"""The one family of errors that bayesjudge raises on purpose."""

from __future__ import annotations


class BayesjudgeError(Exception):
    """Something the user can mend: what is wrong, where, and what to do.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence without a final full stop.
    where : str
        File, column, rows or key concerned; empty where there is none.
    remedy : str
        What to do about it; empty where nothing can be done.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.what} ({self.where})" if self.where else self.what
        return f"{text}. {self.remedy}" if self.remedy else f"{text}."


class DataError(BayesjudgeError):
    """The table cannot be read, or cannot give the answer asked for."""


class ModelError(BayesjudgeError):
    """The model file, a prior or a family is wrong or does not fit the table."""


class UsageError(BayesjudgeError):
    """Options that contradict one another or name something that is not there."""
