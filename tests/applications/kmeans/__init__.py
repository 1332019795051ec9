"""k-means, an example of a new application: one folder, and the record in `test_new_application.py`."""
