"""Takes the place of the segmenter in processes that tests start; a scan's name can ask for trouble."""

import os
import signal
import time

from applications.segmentation.heads import WorldSegmenter


class Segmenter(WorldSegmenter):
    """Segments a synthetic head."""

    def segment(self, volume, **options):
        name = volume.path.name
        if "killed" in name:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60 if "slow" in name else 0.5 if "late" in name else 0)
        return super().segment(volume, **options)
