"""What runs exactly: the split, the tail, the extra rows, and what is refused before any long work.

Lazy exports of the package (ridgefill/__init__.py), name -> module; no module is named as its function:
    prefill -> ridgefill.schedule    filling -> ridgefill.context
    Identity, NoFill, Predictor -> ridgefill.plan
"""
