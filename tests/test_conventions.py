"""The other ways papers write attention are the same thing."""

import torch

from regard import Dot, HeadSizes, MultiHeadAttention, attend, weigh


def test_columns_normalised_over_a_matrix_of_column_vectors() -> None:
    """X is D × N, its columns are tokens; A = softmax over each column of KᵀQ; Y = X A."""
    x = torch.randn(6, 5).double()
    a = torch.softmax(x.T @ x, dim=0)
    torch.testing.assert_close(x @ a, attend(x.T, x.T, x.T, score=Dot()).T, rtol=0, atol=1e-12)
    torch.testing.assert_close(a.sum(0), torch.ones(5).double())


def test_column_vectors_with_projections() -> None:
    """Y = V[X] · softmax(K[X]ᵀ Q[X] / √d), with weights multiplied from the left."""
    x = torch.randn(6, 5).double()
    w_q, w_k, w_v = torch.randn(3, 6).double(), torch.randn(3, 6).double(), torch.randn(4, 6).double()
    y = (w_v @ x) @ torch.softmax((w_k @ x).T @ (w_q @ x) / 3**0.5, dim=0)
    ours = attend((w_q @ x).T, (w_k @ x).T, (w_v @ x).T)
    torch.testing.assert_close(y, ours.T, rtol=0, atol=1e-12)


def test_a_sum_over_heads_is_concatenate_and_project() -> None:
    """Σ_h V_h X A_h, each V_h already mapping back to the model's width (V_h = W_o[h] W_v[h])."""
    module = MultiHeadAttention(12, 3, sizes=HeadSizes(value_width=2), affine=False).double()
    x = torch.randn(5, 12).double()
    (w_q, _), (w_k, _), (w_v, _) = module.input._parts()
    total = torch.zeros(12, 5).double()
    for h in range(3):
        head, values = slice(4 * h, 4 * h + 4), slice(2 * h, 2 * h + 2)
        a = weigh(x @ w_q[head].T, x @ w_k[head].T).T
        v = module.output.weight[:, values] @ w_v[values]
        total += v @ x.T @ a
    torch.testing.assert_close(total.T, module(x), rtol=0, atol=1e-12)


def test_scores_through_the_product_of_projections() -> None:
    """xᵀ(W_qᵀW_k)y: only the product of the two projections matters, so W_q R and W_k R⁻ᵀ are as good."""
    x, y = torch.randn(5, 6).double(), torch.randn(7, 6).double()
    w_q, w_k = torch.randn(3, 6).double(), torch.randn(3, 6).double()
    turn = torch.linalg.qr(torch.randn(3, 3).double())[0] @ torch.diag(torch.tensor([2.0, 0.5, 3.0])).double()
    first = weigh(x @ w_q.T, y @ w_k.T)
    second = weigh(x @ (turn @ w_q).T, y @ (torch.linalg.inv(turn).T @ w_k).T)
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)
    through = torch.softmax(x @ (w_q.T @ w_k) @ y.T / 3**0.5, -1)
    torch.testing.assert_close(first, through, rtol=0, atol=1e-12)


def test_attention_is_a_set_operation() -> None:
    """Keys and values shuffled together change nothing; queries shuffled shuffle the answers."""
    q, k, v = torch.randn(5, 6).double(), torch.randn(7, 6).double(), torch.randn(7, 4).double()
    keys, queries = torch.randperm(7), torch.randperm(5)
    answers = attend(q, k, v)
    torch.testing.assert_close(attend(q, k[keys], v[keys]), answers, rtol=0, atol=1e-12)
    torch.testing.assert_close(attend(q[queries], k, v), answers[queries], rtol=0, atol=1e-12)
