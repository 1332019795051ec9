"""Collect runs into result rows: ``collect_runs.py RUN... > rows.jsonl``; ``collect_runs.py --table rows.jsonl``.

A row has the test metrics of a run after chosen epochs, and its command and commit.
"""

import json
import sys
from pathlib import Path
from statistics import median

from hardmax.applications.runs import read_config
from hardmax.report.tables import format_command
from hardmax.training.run_folder import read_rows

EPOCHS = (1, 5, 10, 20, 40)


def make_row(run: Path) -> dict[str, object]:
    """Return the result row of one run."""
    config, facts = read_config(run)
    rows = read_rows(run / "metrics.jsonl")
    test = {row["epoch"]: row for row in rows if row["split"] == "test"}
    validation = {row["epoch"]: row for row in rows if row["split"] == "validation"}
    last = max(test)
    epochs = [epoch for epoch in EPOCHS if epoch < last] + [last]
    return {
        "name": run.name,
        "command": format_command(config).replace(config.out, f"runs/{run.name}"),
        "commit": facts["commit"],
        "torch": facts["versions"]["torch"],
        "negative_elbo": {str(epoch): round(-test[epoch]["elbo"], 2) for epoch in epochs},
        "nll": round(test[last]["nll"], 2),
        "active": test[last]["active"],
        "validation_negative_elbo": round(-validation[last]["elbo"], 2),
        "seconds_per_epoch": round(median(t["train"] for t in read_rows(run / "timing.jsonl")), 2),
    }


def format_table(path: Path) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| run | " + " | ".join(f"epoch {e}" for e in EPOCHS) + " | last | -log p(x) | active |"]
    lines.append("|---" * (len(EPOCHS) + 4) + "|")
    for text in path.read_text().splitlines():
        row = json.loads(text)
        values = row["negative_elbo"]
        last = max(values, key=int)
        cells = [f"{values[str(e)]:.2f}" if str(e) in values else "" for e in EPOCHS]
        lines.append(
            f"| {row['name']} | {' | '.join(cells)} | {values[last]:.2f} | {row['nll']:.2f} | {row['active']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        print(format_table(Path(sys.argv[2])))
    else:
        for name in sys.argv[1:]:
            print(json.dumps(make_row(Path(name))))
