"""Collect runs into result rows: ``collect_runs.py RUN... > rows.jsonl``; ``collect_runs.py --table rows.jsonl``.

A row holds what a run reached on the test pictures after chosen epochs, and the command and commit that made it.
"""

import json
import sys
from pathlib import Path
from statistics import median

from hardmax.applications.runs import read_config
from hardmax.report.tables import command
from hardmax.training.run_folder import read_rows

EPOCHS = (1, 5, 10, 20, 40)


def row(run: Path) -> dict[str, object]:
    """Return the result row of one run."""
    config, said = read_config(run)
    rows = read_rows(run / "metrics.jsonl")
    test = {found["epoch"]: found for found in rows if found["split"] == "test"}
    validation = {found["epoch"]: found for found in rows if found["split"] == "validation"}
    last = max(test)
    epochs = [epoch for epoch in EPOCHS if epoch < last] + [last]
    return {
        "name": run.name,
        "command": command(config).replace(config.out, f"runs/{run.name}"),
        "commit": said["commit"],
        "torch": said["versions"]["torch"],
        "negative_elbo": {str(epoch): round(-test[epoch]["elbo"], 2) for epoch in epochs},
        "nll": round(test[last]["nll"], 2),
        "active": test[last]["active"],
        "validation_negative_elbo": round(-validation[last]["elbo"], 2),
        "seconds_per_epoch": round(median(t["train"] for t in read_rows(run / "timing.jsonl")), 2),
    }


def table(path: Path) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| run | " + " | ".join(f"epoch {e}" for e in EPOCHS) + " | last | -log p(x) | active |"]
    lines.append("|---" * (len(EPOCHS) + 4) + "|")
    for text in path.read_text().splitlines():
        found = json.loads(text)
        values = found["negative_elbo"]
        last = max(values, key=int)
        cells = [f"{values[str(e)]:.2f}" if str(e) in values else "" for e in EPOCHS]
        lines.append(
            f"| {found['name']} | {' | '.join(cells)} | {values[last]:.2f} | {found['nll']:.2f} | {found['active']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        print(table(Path(sys.argv[2])))
    else:
        for name in sys.argv[1:]:
            print(json.dumps(row(Path(name))))
