"""Side by side with other readers, in one run: `python -m bench`, or `make bench` and `make bench-full`.

In this order: a table is declared and made (`shapes`, `generated`), a question has one right answer (`questions`), a
reader gives one in a process of its own (`readers`, `measure`), a workload says who is asked what (`workloads`), they
are asked in turn (`run`), runs become results (`results`), results are held against budgets (`budgets`) and shown
(`terminal`, `report`). Other suites are modules that yield measurements themselves (`suites`).
"""
