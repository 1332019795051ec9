"""Codes of bits as packed words, how many bits differ, and the nearest of many. No torch here."""
