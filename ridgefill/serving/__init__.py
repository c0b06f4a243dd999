"""`ridgefill serve`: one model for several users, behind the API that their clients already speak.

HTTP (asyncio)                              one thread that computes
body -> request -> prompt ids -> Job  --submit-->  waiting -> prefill, step by step -> one token a turn
stream or answer  <--  Piece, Piece, ... end  <--  text once it is certain, checked for stop strings
"""
