"""What the teaching texts say about shared memory, held against counts and times.

``evidence`` finds the figures, ``claim`` judges and shows a statement, the other modules have the
statements.
"""
