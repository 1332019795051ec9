"""A campaign against hardmax: hostile files, kills, full disks and hostile names; `python -m tools.fuzz --help`.

- `mutation_campaign`: mutated copies of small valid files of every format that hardmax reads. A reader may raise only
  `HardmaxError`, with one line of text, and take at most 1 GB and 10 s.
- `kill_campaign`: trainings of every application are killed at file operations and at random moments, then resumed. The
  result must be that of an uninterrupted training, bit for bit.
- `disk_campaign`: the same with file operations that fail as on a full disk.
- `name_campaign`: names of files and folders that are code to a browser, a terminal or a spreadsheet.

Everything is determined by one seed, except the moments of random kills. Nothing is downloaded.
"""
