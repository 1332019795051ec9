"""Feature selection by `hardmax.sklearn.SelectKFeatures`, beside five other methods.

Every method selects k features of the training examples, and the same judges are trained on these features alone: a
logistic regression and the nearest neighbour, whose accuracy on test examples counts, and a linear regression to all
features, whose error counts as the share of their variance. Four problems with known answers show which sets of
features a method recognises at all.

    python examples/select_features.py                   # a quick form: one small set, one seed
    python examples/select_features.py ROWS.jsonl full   # all; continues where a former call stopped
"""

import json
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from time import process_time

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, lars_path
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn.functional import cross_entropy, gumbel_softmax

import hardmax as hm
from hardmax.data import load_images
from hardmax.drawing.images import make_sheet, save_image
from hardmax.nn import build_mlp
from hardmax.sklearn import SelectKFeatures

FEATURES = {"breast cancer": 5, "wine": 3, "digits": 10, "Fashion-MNIST": 50}  # k of each set


# ------------------------------------------------------------------------------------------- problems with an answer
def make_linear(rng):
    """Five weak effects and 45 features of noise; 200 examples."""
    X, relevant = rng.normal(size=(200, 50)), rng.permutation(50)[:5]
    return X, X[:, relevant].sum(1) + 2.5 * rng.normal(size=200), [{i} for i in relevant]


def make_exclusive_or(rng):
    """Two features whose product decides the class, each useless alone, and 98 of noise; 2,000 examples."""
    X, relevant = rng.normal(size=(2000, 100)), rng.permutation(100)[:2]
    return X, (X[:, relevant].prod(1) > 0).astype(int), [{i} for i in relevant]


def make_friedman(rng):
    """Friedman's function of five features and 95 of noise; 300 examples."""
    X, relevant = rng.uniform(size=(300, 100)), rng.permutation(100)[:5]
    a, b, c, d, e = X[:, relevant].T
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e + rng.normal(size=300)
    return X, y, [{i} for i in relevant]


def make_copies(rng):
    """Five variables decide the class; of each there are eight noisy copies, of which one is enough; 300 examples."""
    variables, order = rng.normal(size=(300, 5)), rng.permutation(60)
    y = (variables @ [1.5, 1.2, 1, 0.8, 0.7] + 0.3 * rng.normal(size=300) > 0).astype(int)
    X = np.hstack([np.repeat(variables, 8, 1) + 0.3 * rng.normal(size=(300, 40)), rng.normal(size=(300, 20))])
    return X[:, order], y, [{i for i in range(60) if order[i] // 8 == variable} for variable in range(5)]


PROBLEMS = {
    "weak linear": make_linear,
    "exclusive or": make_exclusive_or,
    "Friedman": make_friedman,
    "copies": make_copies,
}


# ------------------------------------------------------------------------------------------------- methods
def select_ours(X, y, k, seed, **options):
    steps = 2000 if X.shape[1] > 500 else 1000
    return SelectKFeatures(k, steps=steps, random_state=seed, **options).fit(X, y).get_support(indices=True)


def select_lasso(X, y, k, seed):
    """The strongest L1 penalty that keeps k features; of these the k with the largest weights."""
    if y.dtype.kind == "f":
        path = np.abs(lars_path(X, y - y.mean(), method="lasso")[2]).T
    else:
        path = (fit_sparse_classifier(X, y, C) for C in np.geomspace(1e-4, 10, 21))
    weights = next(weights for weights in path if np.count_nonzero(weights) >= k)
    return np.argsort(-weights, kind="stable")[:k]


def fit_sparse_classifier(X, y, C):
    """Return the largest absolute weight of each feature."""
    model = LogisticRegression(C=C, l1_ratio=1, solver="saga", tol=0.01, max_iter=10_000, random_state=0)
    return np.abs(model.fit(X, y).coef_).max(0)


def select_forest(X, y, k, seed):
    forest = RandomForestRegressor if y.dtype.kind == "f" else RandomForestClassifier
    return np.argsort(-forest(100, random_state=seed).fit(X, y).feature_importances_, kind="stable")[:k]


def select_by_information(X, y, k, seed):
    measure = mutual_info_regression if y.dtype.kind == "f" else mutual_info_classif
    some = np.random.default_rng(seed).permutation(len(X))[:2000]  # nearest neighbours of all would take minutes
    return np.argsort(-measure(X[some], y[some], random_state=seed), kind="stable")[:k]


def select_concrete(X, y, k, seed, *, steps=3000, first=10.0, last=0.1, rate=0.1):
    """Concrete selection: each of k nodes mixes the features by a Gumbel-softmax that hardens; nodes may agree."""
    torch.manual_seed(seed)
    x = torch.tensor(X, dtype=torch.float32)
    target = x if y is None else torch.tensor(y, dtype=torch.float32 if y.dtype.kind == "f" else torch.int64)
    outputs = X.shape[1] if y is None else 1 if y.dtype.kind == "f" else int(y.max()) + 1
    logits = nn.Parameter(0.01 * torch.randn(k, X.shape[1]))
    network = build_mlp([k, 64, outputs])
    optimizer = torch.optim.Adam([{"params": network.parameters(), "lr": 0.005}, {"params": [logits], "lr": rate}])
    for step in range(steps):
        batch = torch.randint(len(x), (128,))
        choices = gumbel_softmax(logits, tau=first * (last / first) ** (step / steps))
        prediction = network(x[batch] @ choices.T)
        if target.is_floating_point():
            loss = (prediction.view_as(target[batch]) - target[batch]).square().mean()
        else:
            loss = cross_entropy(prediction, target[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return logits.argmax(1).numpy()


def select_at_random(X, y, k, seed):
    return np.random.default_rng(seed).permutation(X.shape[1])[:k]


OURS = "SelectKFeatures"
METHODS = {
    OURS: select_ours,
    "L1 penalty": select_lasso,
    "random forest": select_forest,
    "mutual information": select_by_information,
    "Concrete selection": select_concrete,
}
WITHOUT_CLASSES = {
    f"{OURS}, without y": lambda X, y, k, seed: select_ours(X, None, k, seed, standardize=False),
    "Concrete selection, without y": lambda X, y, k, seed: select_concrete(X, None, k, seed),
    "at random": select_at_random,
    "all features": lambda X, y, k, seed: np.arange(X.shape[1]),
}
VARIANTS = {
    f"{OURS}, {name}": partial(select_ours, **options)
    for name, options in {
        "always k": {"annealing_share": 0},
        "StraightThrough": {"gradient_estimator": hm.StraightThrough()},
        "AdaptiveImplicitMLE": {"gradient_estimator": hm.AdaptiveImplicitMLE()},
    }.items()
}


# ------------------------------------------------------------------------------------------------- data and judges
def load_set(name, seed):
    """Return training and test examples and their classes; the training examples have mean 0, and one unit."""
    if name == "Fashion-MNIST":
        images = load_images("fashion-mnist")
        some = np.random.default_rng(seed).permutation(len(images.train))[:10_000]
        parts = [images.train[some], images.test, images.labels["train"][some], images.labels["test"]]
        X, X_test, y, y_test = [part.flatten(1).numpy() if part.dim() > 1 else part.numpy() for part in parts]
    else:
        load = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name]
        X, y = load(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    deviation = X.std() if name in ("digits", "Fashion-MNIST") else X.std(0)  # pixels have one unit, the others none
    return (X - X.mean(0)) / deviation, (X_test - X.mean(0)) / deviation, y, y_test


def judge_features(features, X, X_test, y, y_test):
    """Return the accuracies and the reconstruction error of models that see only these features."""
    chosen, chosen_test = X[:, features], X_test[:, features]
    linear = LinearRegression().fit(chosen, X).predict(chosen_test)
    scaler = StandardScaler().fit(chosen)
    chosen, chosen_test = scaler.transform(chosen), scaler.transform(chosen_test)
    return {
        "logistic regression": LogisticRegression(max_iter=5000).fit(chosen, y).score(chosen_test, y_test),
        "nearest neighbour": KNeighborsClassifier(1).fit(chosen, y).score(chosen_test, y_test),
        "reconstruction error": float(np.square(linear - X_test).sum() / np.square(X_test).sum()),
    }


def measure(data, method, seed):
    """Return a row of results."""
    if data in PROBLEMS:
        X, y, groups = PROBLEMS[data](np.random.default_rng(1000 + seed))
        X, k = (X - X.mean(0)) / X.std(0), len(groups)
        y = (y - y.mean()) / y.std() if y.dtype.kind == "f" else y
    else:
        X, X_test, y, y_test = load_set(data, seed)
        k = FEATURES[data]
    start = process_time()
    indices = [int(i) for i in {**METHODS, **WITHOUT_CLASSES, **VARIANTS}[method](X, y, k, seed)]
    row = {"data": data, "method": method, "k": k, "seed": seed, "seconds": round(process_time() - start, 2)}
    row |= {"features": indices, "distinct": len(set(indices))}
    if data in PROBLEMS:
        return row | {"recovered": mean(any(i in group for i in indices) for group in groups)}
    return row | judge_features(sorted(set(indices)), X, X_test, y, y_test)


# ------------------------------------------------------------------------------------------------- tables
def list_runs(full):
    """Return data, method and seed of each run."""
    if not full:
        return [("wine", method, 0) for method in METHODS]
    runs = [(data, method, seed) for data in FEATURES for seed in range(3) for method in METHODS | WITHOUT_CLASSES]
    runs += [(data, method, seed) for seed in range(10) for data in PROBLEMS for method in METHODS]
    return runs + [(data, method, seed) for seed in range(5) for data in PROBLEMS for method in VARIANTS]


def print_table(rows, names, measure):
    """Print means and standard errors over seeds, with a row for each method and a column for each set."""
    cells = defaultdict(list)
    for row in rows:
        if row["data"] in names and measure in row:
            cells[row["method"], row["data"]].append(row[measure])
    print(f"\n{measure}\n\n| method | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for method in dict.fromkeys(method for method, _ in cells):
        print(f"| {method} | {' | '.join(format_cell(cells[method, name], measure) for name in names)} |")


def format_cell(values, measure):
    if not values:
        return "–"
    scale, digits = (1, 1) if measure in ("seconds", "distinct") else (100, 1)
    error = f" ± {scale * stdev(values) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{scale * mean(values):.{digits}f}{error}"


def draw_pixels(rows, path):
    """Draw the pixels that each method selected on Fashion-MNIST, seed 0."""
    masks = {row["method"]: row["features"] for row in rows if row["data"] == "Fashion-MNIST" and row["seed"] == 0}
    del masks["all features"]
    images = torch.zeros(1, len(masks), 1, 28, 28)
    for image, features in zip(images[0], masks.values(), strict=True):
        image.view(-1)[features] = 1
    heads = [method.split(", ") if ", " in method else [method, ""] for method in masks]
    save_image(make_sheet(images, names=["", ""], heads=heads), path)


def main(path=None, form="quick"):
    torch.set_num_threads(1)
    file = Path(path) if path else None
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    done = {(row["data"], row["method"], row["seed"]) for row in rows}
    command = f"python examples/select_features.py {path} {form}"
    for run in list_runs(form == "full"):
        if run not in done:
            rows.append({"command": command, **measure(*run)})
            if file:
                with file.open("a") as out:
                    out.write(json.dumps(rows[-1]) + "\n")
    sets = [name for name in FEATURES if any(row["data"] == name for row in rows)]
    for name in ("logistic regression", "nearest neighbour", "reconstruction error", "distinct", "seconds"):
        print_table(rows, sets, name)
    if form == "full":
        print_table(rows, list(PROBLEMS), "recovered")
        print_table(rows, list(PROBLEMS), "seconds")
        draw_pixels(rows, file.with_suffix(".png"))


if __name__ == "__main__":
    main(*sys.argv[1:])
