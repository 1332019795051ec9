"""Tensors and facts in a folder."""

import torch

from hardmax.applications.segmentation.model_folder import load_tensors, save_tensors


def test_both_files_may_be_read_by_the_same_people(tmp_path):
    save_tensors(tmp_path, "prior", {"half": torch.arange(6.0)[::2]}, {"labels": 3})
    modes = {(tmp_path / f"prior.{suffix}").stat().st_mode for suffix in ("safetensors", "json")}
    assert len(modes) == 1
    tensors, facts = load_tensors(tmp_path, "prior")
    assert tensors["half"].tolist() == [0, 2, 4]
    assert facts == {"labels": 3}
    assert not list(tmp_path.glob("*.tmp"))
