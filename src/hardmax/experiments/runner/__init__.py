"""Runs of tables and figures: plan, executors, locks, rows."""
