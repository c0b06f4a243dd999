"""RULER's 13 tasks (NVIDIA/RULER, scripts/data/synthetic): its structure, parameters, budgets and scorers, our words.

    niah.py  variable_tracking.py  word_counts.py  questions.py     the tasks, a family a file
        |           |                   |               |
        +-----------+---------+---------+---------------+
                              v
    base.py     a draft that grows -> fit.py to the budget -> a prompt -> spans.py: its evidence in tokens
                              ^
    haystack.py  essays.py  words.py  wording.py  marked.py         what drafts are made of
    scoring.py                                                      what answers are worth

What a sample asks and answers is drawn from its id and the seed alone; only how much filler it has depends on the
tokenizer, so that probing for the length cannot change it (upstream's samples depend on their probes).
"""
