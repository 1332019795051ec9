"""The applications: one folder each, with its options, model, objective, task, report and commands."""
