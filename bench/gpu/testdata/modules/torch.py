"""What peer_torch.py calls of PyTorch, over NumPy: for tests without a GPU."""
import types

import numpy as np

cuda = types.SimpleNamespace(is_available=lambda: True)
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True)))


class Tensor:
    def __init__(self, data):
        self.data = data

    def to(self, device):
        assert device == "cuda"
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.data

    @property
    def T(self):
        return Tensor(self.data.T)

    def __matmul__(self, other):
        return Tensor(self.data @ other.data)


def from_numpy(data):
    return Tensor(data)


def topk(x, k, dim):
    assert dim == 1 and not backends.cuda.matmul.allow_tf32
    return types.SimpleNamespace(indices=Tensor(np.argsort(-x.data, axis=1, kind="stable")[:, :k]))
