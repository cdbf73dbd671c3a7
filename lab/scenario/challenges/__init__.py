"""Challenges: a hidden fault, its hints, the judgement of an answer, and the process that keeps the fault active."""
