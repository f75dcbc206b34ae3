"""Side by side with other readers, in one run: `python -m bench`, or `make bench`.

Building sidecars, locally and on Spark, and ingestion beside Delta's own writer: `python -m bench.writing`.

What is asked is in `questions`, who answers in `readers`, the tables in `tables`, what it may cost in `budgets`. Every
answer is made in a process of its own (`measure`) and compared with what the generator of the table knows to be true
before its time counts.
"""
