"""What the scorers of ``make_inspect.py`` say, which tests expect to read."""

GRADES = {"a": "CCPIN", "b": "CICIC", "c": "CCIIX"}
"""What each judge says of the five samples; X is a reply without a grade."""

ITEMS = ("q-0", "q-1", "q-2", "q-3", "سؤال-4")
EPOCHS = ("1", "2")
