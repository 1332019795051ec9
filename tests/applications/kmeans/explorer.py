"""The latent explorer of k-means: the cluster of an image, and the centre of every cluster."""

from hardmax.applications.exploration import AbstractExplorer, write_prelude
from hardmax.applications.explorer_controls import ChoiceControl, ImageControl, ImagesView
from hardmax.report.run import Run
from hardmax.report.sections import make_tile


class KMeansExplorer(AbstractExplorer[Run]):
    """Choose an image to see its cluster, or a cluster to see its centre."""

    about = "Choose an image to see its cluster."

    def __init__(self, run: Run) -> None:
        super().__init__(run, run.test_examples)
        clusters = tuple(map(str, range(run.config.clusters)))
        self.controls = (
            ImageControl("image", "image", len(run.test_examples)),
            ChoiceControl("cluster", "cluster", ("cluster",), clusters),
        )

    def update(self, state, changed, photo, before):
        if changed != "image":
            return state
        return {**state, "cluster": [int(self._model.scores(self._choose_image(state, photo)).argmax())]}

    def draw(self, state, photo):
        x = self._choose_image(state, photo)
        centres = self._model.centres.detach().view(-1, *x.shape[1:])
        tiles = [make_tile(centre[None], f"centre {k}", str(k)) for k, centre in enumerate(centres)]
        return [
            ImagesView("Image", [make_tile(x, "the image")]),
            ImagesView("Centres", tiles, control="cluster", chosen=state["cluster"][0]),
        ]

    def write_python(self, state):
        return write_prelude(self._run) + self._write_image_choice(state) + "print(model.scores(x).argmax())\n"
