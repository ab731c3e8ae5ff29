"""Models as people write them, without a library: graphs, recommendation, recurrence, images."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F


def normalise_by_degree(messages, target, nodes):
    """The mean of the messages that arrive at each node."""
    total = torch.zeros(nodes, messages.shape[1], dtype=messages.dtype).index_add(0, target, messages)
    degree = torch.zeros(nodes, dtype=messages.dtype).index_add(0, target, torch.ones_like(messages[:, 0]))
    return total / degree.clamp(min=1.0).unsqueeze(-1)


class GraphConvolution(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own = nn.Linear(width, width)
        self.other = nn.Linear(width, width, bias=False)

    def forward(self, nodes, edges):
        source, target = edges
        messages = F.relu(self.other(nodes)[source])
        return F.relu(self.own(nodes) + normalise_by_degree(messages, target, nodes.shape[0]))


class GraphNetwork(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(GraphConvolution(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, nodes, edges):
        for layer in self.layers:
            nodes = self.norm(nodes + layer(nodes, edges))
        return nodes


def gnn():
    torch.manual_seed(0)
    return GraphNetwork(128, 3).eval(), (torch.randn(2000, 128), torch.randint(0, 2000, (2, 12000)))


def pairwise_dots(features):
    """The dot product of every pair of feature vectors: (batch, features, width) to (batch, pairs)."""
    products = features @ features.transpose(1, 2)
    rows, columns = torch.tril_indices(features.shape[1], features.shape[1], offset=-1)
    return products[:, rows, columns]


class Recommender(nn.Module):
    """Like DLRM: embedding bags for the sparse features, an MLP for the dense ones, their pairwise products."""

    def __init__(self, tables, rows, width):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, dense, sparse, offsets):
        first = self.bottom(dense)
        pooled = [bag(ids, at) for bag, ids, at in zip(self.bags, sparse, offsets, strict=True)]
        features = torch.stack([first, *pooled], dim=1)
        return self.top(torch.cat([first, pairwise_dots(features)], dim=1)).squeeze(-1)


def dlrm():
    torch.manual_seed(0)
    batch, tables, rows = 512, 8, 5000
    sparse = [torch.randint(0, rows, (batch * 4,)) for _ in range(tables)]
    offsets = [torch.arange(0, batch * 4, 4) for _ in range(tables)]
    return Recommender(tables, rows, 64).eval(), (torch.rand(batch, 13), sparse, offsets)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 128)
        self.lstm = nn.LSTM(128, 256, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(512, 20)

    def forward(self, ids):
        hidden, _ = self.lstm(self.embedding(ids))
        return F.log_softmax(self.head(hidden), dim=-1)


def lstm():
    torch.manual_seed(0)
    return Tagger().eval(), (torch.randint(0, 1000, (8, 64)),)


class DoubleConvolution(nn.Module):
    def __init__(self, given, wanted):
        super().__init__()
        self.first = nn.Conv2d(given, wanted, 3, padding=1, bias=False)
        self.second = nn.Conv2d(wanted, wanted, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(wanted), nn.BatchNorm2d(wanted)])

    def forward(self, x):
        x = F.relu(self.norms[0](self.first(x)), inplace=True)
        return F.relu(self.norms[1](self.second(x)), inplace=True)


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.enter = DoubleConvolution(3, widths[0])
        self.down = nn.ModuleList(DoubleConvolution(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in reversed(pairs))
        self.merge = nn.ModuleList(DoubleConvolution(2 * a, a) for a, _ in reversed(pairs))
        self.leave = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = [self.enter(x)]
        for block in self.down:
            kept.append(block(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), kept.pop()], dim=1))
        return self.leave(x)


def unet():
    torch.manual_seed(0)
    return UNet().eval(), (torch.randn(1, 3, 128, 128),)
