"""Golden values of model::racing: one look's leader, means and probabilities, filled holes, pair deviation.

Self-contained: the formulas of the prototype that the rule was tuned with, on fixed data.
  python3 make_racing.py > racing.json        (NumPy 2.4.6, SciPy 1.17.1)
"""
import json, math
import numpy as np
from scipy import stats

EPS = 0.01
MEDCHI = {n: stats.chi2.ppf(0.5, n) / n for n in range(1, 400)}


def winsor(D, prior_df=4.0, robust=True, pooled=True):
    """D: blocks x pairs (log ratios). -> mean, standard error, degrees of freedom; columns share a prior variance."""
    n = D.shape[0]
    med = np.median(D, axis=0)
    mad = 1.4826 * np.median(np.abs(D - med), axis=0) * (1 + 0.8 / n)
    s0 = np.median(mad) if D.shape[1] > 2 else mad.max()
    if robust:
        c = 2.5 * np.maximum(mad, s0) if n < 12 else 2.5 * np.maximum(mad, 0.5 * s0)
        W = np.clip(D, med - c, med + c)
    else:
        W = D
    mean = W.mean(axis=0)
    v = W.var(axis=0, ddof=1) * (1.06 if robust else 1.0)
    if not pooled or D.shape[1] < 3:
        return mean, np.sqrt(v / n), n - 1.0
    v0 = np.median(v) / MEDCHI[n - 1]
    d = n - 1.0
    vm = (prior_df * v0 + d * v) / (prior_df + d)
    return mean, np.sqrt(vm / n), d + prior_df


def located(Y):
    """robust candidate effects after removing block medians"""
    E = Y - np.median(Y, axis=1, keepdims=True)
    n = len(E)
    if n < 3:
        return E.mean(axis=0)
    med = np.median(E, axis=0)
    s = np.median(1.4826 * np.median(np.abs(E - med), axis=0)) * (1 + 0.8 / n) + 1e-9
    return np.clip(E, med - 2.5 * s, med + 2.5 * s).mean(axis=0)


def fill_missing(Y):
    """an invalid trial: additive guess (its column and row medians), so that one hole does not cost the block"""
    Y = Y.copy()
    row = np.nanmedian(Y, axis=1, keepdims=True)
    col = np.nanmedian(Y - row, axis=0)
    i, j = np.where(np.isnan(Y))
    Y[i, j] = row[i, 0] + col[j]
    return Y


def reference_sd(info, w):
    d = info["full"][:, w] - info["full"][:, 0]
    d = d[~np.isnan(d)]
    if len(d) < 2:
        return 0.05, d
    mad = 1.4826 * np.median(np.abs(d - np.median(d)))
    s = math.sqrt((4 * max(mad, 0.005) ** 2 + (len(d) - 1) * min(d.var(ddof=1), (2.0 * mad + 0.01) ** 2)) / (3 + len(d)))
    return s, d


def main():
    r = np.random.default_rng(20240501)
    K, N = 7, 22
    Y = np.log(3.0) + r.normal(0, 0.02, (N, 1)) + np.array([0.04, 0.0, 0.004, 0.012, 0.03, 0.08, 0.15]) + r.normal(0, 0.03, (N, K))
    Y[4, 2:5] += math.log(1.3); Y[1, 1] += math.log(1.3)
    Y = np.round(Y, 6)
    out = dict(rows=Y.tolist(), looks=[])
    for cols in (list(range(K)), [0, 1, 2]):
        for n in (2, 3, 4, 5, 6, 12, 22):
            Z = Y[:n][:, cols]
            L = int(located(Z).argmin())
            others = [i for i in range(len(cols)) if i != L]
            D = Z[:, others] - Z[:, [L]]
            mean, se, df = winsor(D)
            plain = stats.t.cdf((-EPS - mean) / se, df)
            if n < 5:
                mean = D.min(axis=0) if n == 2 else np.median(D, axis=0)
                se = se * math.sqrt(n if n == 2 else 1.5)
            p = stats.t.cdf((-EPS - mean) / se, df)
            out["looks"].append(dict(columns=len(cols), blocks=n, leader=L, mean=list(mean), probability=list(p), plain=list(plain)))
    s, d = reference_sd(dict(full=Y), 1)
    h = max(0.01, 0.1 * abs(np.median(d)))
    out["pair_deviation"] = dict(first=1, second=0, value=float(s), half_width=h, pairs=int(np.clip(math.ceil((2 * s / h) ** 2), 10, 250)))
    Z = Y[:10].copy(); Z[2, 3] = np.nan; Z[7, 3] = np.nan; Z[5, 0] = np.nan
    out["filled"] = dict(holes=[[2, 3], [7, 3], [5, 0]], blocks=10, columns=fill_missing(Z).T.tolist())
    print(json.dumps(out))


if __name__ == "__main__":
    main()
