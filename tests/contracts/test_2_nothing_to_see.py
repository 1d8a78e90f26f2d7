"""Contract 2: a query that may look at nothing gets exactly 0, and every gradient is finite."""

import torch
from contracts.cases import Case
from contracts.evaluation import evaluate, looking_and_seen

from regard import weigh


def test_a_query_that_may_look_at_nothing_gets_exactly_zero(case: Case) -> None:
    call, value = case.build()
    looking, _ = looking_and_seen(call)
    result = evaluate(call, value, torch.ones(*call.query.shape[:-1], value.shape[-1], dtype=value.dtype))
    assert (result.output[~looking] == 0).all()
    assert (result.output[looking] != 0).any(-1).all()
    for gradient in (result.output, *result.gradients()):
        assert gradient.isfinite().all()


def test_a_row_of_weights_sums_to_one_or_to_zero(case: Case) -> None:
    call, _ = case.build()
    looking, _ = looking_and_seen(call)
    weights = weigh(call).double()
    tolerance = 1e-12 if case.dtype == "f64" else 4 * torch.finfo(call.query.dtype).eps
    torch.testing.assert_close(weights.sum(-1), looking.double(), rtol=0, atol=tolerance)
    assert (weights >= 0).all()
