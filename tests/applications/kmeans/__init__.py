"""k-means, as a new application would be written: one folder, and the record in `test_new_application.py`."""
