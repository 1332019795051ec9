"""The type checker of shapes and types under pytest; as in PEP 484, an int is accepted where a float is expected."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
