"""What labels: its answer and its loss follow from its scores."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.data.batches import Labelled, Sequences
from regard.models.labelling import Labelling


class Fixed(Labelling[Sequences]):
    """Scores that were decided before."""

    def scores(self, inputs: Sequences) -> Float[Tensor, "b classes"]:
        """The first tokens, as scores."""
        return inputs.tokens.double()


def test_answers_and_losses_are_those_of_the_scores() -> None:
    batch = Labelled(Sequences.of([[4, 5, 9], [7, 3, 3]]), torch.tensor([2, 1]))
    model, scores = Fixed(smoothing=0.2), batch.inputs.tokens.double()
    torch.testing.assert_close(model.predict(batch.inputs), scores.log_softmax(-1))
    loss = model.loss(batch)
    expected = F.cross_entropy(scores, batch.labels, label_smoothing=0.2, reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    assert (loss.count.item(), loss.metrics["correct"].item()) == (2, 1)
