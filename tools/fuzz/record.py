"""Results of campaigns: cases, defects, the slowest case and the peak of memory; their table, and files of defects."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Defect:
    """A case in which hardmax broke a promise.

    Attributes:
        case: name of the case, with which `--case` repeats it.
        reason: what happened, one line first.
        kind: what defects of the same origin have in common: only the first of them is kept.
        content: the file that caused it, if it was one file.
    """

    case: str
    reason: str
    kind: str
    content: bytes | None = None


# Name of a case, its seconds and megabytes, and its defect.
Result = tuple[str, float, float, Defect | None]


@dataclass
class Tally:
    """The results of one campaign.

    Attributes:
        campaign: its name.
        cases: number of cases so far.
        defects: the first defect of each kind, with the number of its kind.
        slowest: seconds of the slowest case.
        slowest_case: its name.
        peak: most memory that a case took, in MB, above that of the process before it.
        peak_case: its name.
    """

    campaign: str
    cases: int = 0
    defects: dict[str, tuple[Defect, int]] = field(default_factory=dict)
    slowest: float = 0.0
    slowest_case: str = ""
    peak: float = 0.0
    peak_case: str = ""

    def add_case(self, case: str, seconds: float, megabytes: float = 0.0) -> None:
        """Count a case."""
        self.cases += 1
        if seconds > self.slowest:
            self.slowest, self.slowest_case = seconds, case
        if megabytes > self.peak:
            self.peak, self.peak_case = megabytes, case

    def add_defect(self, defect: Defect) -> None:
        """Count a defect."""
        first, count = self.defects.get(defect.kind, (defect, 0))
        self.defects[defect.kind] = (first, count + 1)

    def add_result(self, result: Result) -> None:
        """Count a case, and its defect if it has one."""
        case, seconds, megabytes, defect = result
        self.add_case(case, seconds, megabytes)
        if defect is not None:
            self.add_defect(defect)


def save_defects(folder: Path, seed: int, tallies: list[Tally]) -> list[Path]:
    """Write the defects of all campaigns, each with the command that repeats it and the file that caused it."""
    paths = []
    for tally in tallies:
        for number, (defect, count) in enumerate(tally.defects.values(), 1):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{tally.campaign}-{number}.json"
            facts = {
                "campaign": tally.campaign,
                "case": defect.case,
                "seed": seed,
                "count": count,
                "repeat": f"python -m tools.fuzz --seed {seed} --case '{tally.campaign}/{defect.case}'",
                "reason": defect.reason.splitlines(),
            }
            if defect.content is not None:
                name = re.sub(r"[^a-z0-9.]+", "-", defect.case.lower())
                path.with_name(f"{path.stem}-{name}").write_bytes(defect.content)
                facts["file"] = f"{path.stem}-{name}"
            path.write_text(json.dumps(facts, indent=2) + "\n")
            paths.append(path)
    return paths


def format_table(tallies: list[Tally]) -> str:
    """Return the table of all campaigns, and a line for each kind of defect."""
    lines = [f"{'campaign':<12}{'cases':>9}{'defects':>9}{'slowest':>11}{'peak':>10}   slowest case; case of the peak"]
    for tally in tallies:
        lines.append(
            f"{tally.campaign:<12}{tally.cases:>9,}{len(tally.defects):>9}{tally.slowest:>9.2f} s"
            f"{tally.peak:>7.0f} MB   {tally.slowest_case}; {tally.peak_case or '-'}"
        )
    for tally in tallies:
        for defect, count in tally.defects.values():
            lines.append(
                f"defect of {tally.campaign}, {count} cases, first {defect.case}: {defect.reason.splitlines()[0]}"
            )
    return "\n".join(lines)
