"""Makes statistics.json, the golden values of crates/model/src/statistics.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install scipy==1.17.1 numpy==2.4.6
    /tmp/golden/bin/python make_statistics.py > statistics.json

SciPy wherever it has the thing; otherwise the paper's formula written out here, or every case counted.
"""

import itertools
import json
import sys

import numpy as np
import scipy
from scipy import stats
from scipy.stats._resampling import _bca_interval

RNG = np.random.default_rng(20240501)


def log_normal(count, median=10.0, noise=0.3):
    # Three digits, so that every JSON reader gets the same double.
    return np.round(median * np.exp(noise * RNG.standard_normal(count)), 3).tolist()


def t_interval(values, confidence=0.95):
    if len(values) < 2:
        return None
    return list(stats.t.interval(confidence, len(values) - 1, np.mean(values), stats.sem(values)))


def log_t_interval(values, confidence=0.95):
    if len(values) < 2:
        return None
    if min(values) <= 0:
        return t_interval(values, confidence)
    return np.exp(t_interval(np.log(values), confidence)).tolist()


def widened(interval, value):
    return None if interval is None else [min(interval[0], value), max(interval[1], value)]


def median_interval(values, confidence):
    """Hettmansperger and Sheather 1986."""
    x, n = sorted(values), len(values)
    if n < 2:
        return None
    gamma = lambda d: 1 - 2 * stats.binom.cdf(d - 1, n, 0.5)
    depths = [d for d in range(1, n // 2 + 1) if gamma(d) >= confidence]
    if not depths:
        return widened(log_t_interval(values, confidence), float(np.median(values)))
    d = max(depths)
    i = (gamma(d) - confidence) / (gamma(d) - max(gamma(d + 1), 0))
    share = (n - d) * i / (d + (n - 2 * d) * i)
    at = lambda k: x[k - 1]
    return [(1 - share) * at(d) + share * at(d + 1), (1 - share) * at(n + 1 - d) + share * at(n - d)]


def summary():
    samples = {
        "one": [4.25],
        "two": [3.0, 5.5],
        "five": log_normal(5),
        "six": log_normal(6),
        "seven": log_normal(7),
        "eight": log_normal(8),
        "ten": log_normal(10),
        "thirty": log_normal(30),
        "hundred and one": log_normal(101),
        "two thousand": np.round(np.linspace(1, 3, 2000) ** 2, 3).tolist(),
        "tied": [1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0, 7.0],
        "negative": [-5.0, -3.5, 0.0, 2.25, 8.0, -1.0, 4.0, 4.5],
        "few negative": [-5.0, -3.5, 2.25],
        "huge": [1e200, 2e200, 3.5e200, 5e200, 4e200, 1.5e200, 7e200],
    }
    for name, values in samples.items():
        yield {
            "name": name,
            "values": values,
            "median": np.median(values),
            "quantiles": np.quantile(values, [0.0, 0.05, 0.5, 0.9, 0.99, 1.0]).tolist(),
            "mad_noise": stats.median_abs_deviation(values, scale="normal"),
            # The squares of the huge ones overflow, in SciPy as here.
            "student": None if name == "huge" else t_interval(values),
            "log_student": log_t_interval(values),
            "median_interval_95": median_interval(values, 0.95),
            "median_interval_99": median_interval(values, 0.99),
        }


def signed_rank_cumulative(n):
    """Every choice of signs."""
    sums = [sum(r for r, s in zip(range(1, n + 1), signs) if s) for signs in itertools.product([0, 1], repeat=n)]
    middle = n * (n + 1) // 4
    return [sum(s <= k for s in sums) / len(sums) for k in range(middle + 1)]


def rank_sum_cumulative(n, m):
    """Every choice of ranks for the first side."""
    sums = [sum(c) - n * (n + 1) // 2 for c in itertools.combinations(range(1, n + m + 1), n)]
    return [sum(s <= k for s in sums) / len(sums) for k in range(n * m // 2 + 1)]


def rank_distribution():
    for n in [1, 2, 5, 6, 9, 12]:
        yield {"sizes": [n], "cumulative": signed_rank_cumulative(n)}
    for n, m in [(1, 1), (1, 5), (3, 4), (4, 4), (6, 7), (10, 3), (8, 8)]:
        yield {"sizes": [n, m], "cumulative": rank_sum_cumulative(n, m)}


def acceptance_interval(combinations, rejected):
    """The shifts that a two-sided test at 5 % does not reject: the test is asked between all neighbours."""
    ordered = np.unique(combinations)
    gaps = np.concatenate([[ordered[0] - 1], (ordered[1:] + ordered[:-1]) / 2, [ordered[-1] + 1]])
    # The p value rises to its middle and falls again, so each end is found by bisection.
    middle = len(gaps) // 2
    low, high = -1, middle
    while high - low > 1:
        probe = (low + high) // 2
        low, high = (probe, high) if rejected(gaps[probe]) else (low, probe)
    first = high
    low, high = middle, len(gaps)
    while high - low > 1:
        probe = (low + high) // 2
        low, high = (low, probe) if rejected(gaps[probe]) else (probe, high)
    if first == 0 or low == len(gaps) - 1:
        return None
    return [float(ordered[first - 1]), float(ordered[low])]


def mann_whitney(baseline, candidate):
    ties = len(set(baseline + candidate)) < len(baseline + candidate)
    exact = not ties and max(len(baseline), len(candidate)) < 50
    method = "exact" if exact else "asymptotic"
    result = stats.mannwhitneyu(candidate, baseline, alternative="two-sided", method=method, use_continuity=True)
    return {"statistic": result.statistic, "p_value": result.pvalue, "method": "exact" if exact else "normal"}


def shift_interval(baseline, candidate):
    exact = max(len(baseline), len(candidate)) < 50
    differences = np.subtract.outer(candidate, baseline).ravel()

    def rejected(shift):
        moved = np.asarray(candidate) - shift
        method = "exact" if exact else "asymptotic"
        return stats.mannwhitneyu(moved, baseline, method=method).pvalue <= 0.05

    interval = acceptance_interval(differences, rejected)
    if interval is None:
        interval = welch(baseline, candidate, 0.95)
    return widened(interval, float(np.median(differences)))


def welch(baseline, candidate, confidence):
    if min(len(baseline), len(candidate)) < 2:
        return None
    ci = stats.ttest_ind(candidate, baseline, equal_var=False).confidence_interval(confidence)
    return [ci.low, ci.high]


def two_samples():
    samples = {
        "three and three": (log_normal(3), log_normal(3, 14)),
        "one and four": (log_normal(1), log_normal(4)),
        "four and four": (log_normal(4), log_normal(4, 14)),
        "five and nine": (log_normal(5), log_normal(9, 12)),
        "thirty and thirty": (log_normal(30), log_normal(30, 11.5)),
        "forty-nine and twenty": (log_normal(49), log_normal(20, 10.5)),
        "sixty and fifty-five": (log_normal(60), log_normal(55, 9)),
        "tied": ([1.0, 2.0, 2.0, 3.0, 3.0, 5.0, 6.0], [2.0, 3.0, 4.0, 4.0, 6.0, 7.0, 7.0, 9.0]),
    }
    for name, (baseline, candidate) in samples.items():
        differences = np.subtract.outer(candidate, baseline)
        yield {
            "name": name,
            "baseline": baseline,
            "candidate": candidate,
            "mann_whitney": mann_whitney(baseline, candidate),
            "welch_90": welch(baseline, candidate, 0.9),
            "shift": np.median(differences),
            # Shifting makes and breaks ties; with tied input the inverted exact test is not defined.
            "shift_interval": shift_interval(baseline, candidate) if name != "tied" else tied_interval(baseline, candidate),
        }


def tied_interval(baseline, candidate):
    """The depth of the distribution without ties, by counting, as R does with exact = TRUE."""
    cumulative = rank_sum_cumulative(len(baseline), len(candidate))
    depth = sum(p <= 0.025 for p in cumulative)
    ordered = sorted(np.subtract.outer(candidate, baseline).ravel().tolist())
    return [ordered[depth - 1], ordered[-depth]]


def wilcoxon(values):
    moved = [v for v in values if v != 0]
    ties = len({abs(v) for v in moved}) < len(moved)
    exact = not ties and len(moved) < 50
    method = "exact" if exact else "asymptotic"
    two_sided = stats.wilcoxon(moved, method=method, correction=not exact)
    greater = stats.wilcoxon(moved, method=method, correction=not exact, alternative="greater")
    return {"statistic": greater.statistic, "p_value": two_sided.pvalue, "method": "exact" if exact else "normal"}


def averages(values):
    return np.array([(a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2)])


def center_interval(values):
    exact = len(values) < 50

    def rejected(center):
        moved = np.asarray(values) - center
        method = "exact" if exact else "asymptotic"
        return stats.wilcoxon(moved, method=method, correction=not exact).pvalue <= 0.05

    interval = acceptance_interval(averages(values), rejected)
    return widened(interval or t_interval(values), float(np.median(averages(values))))


def tied_center_interval(values):
    cumulative = signed_rank_cumulative(len(values))
    depth = sum(p <= 0.025 for p in cumulative)
    ordered = sorted(averages(values).tolist())
    return [ordered[depth - 1], ordered[-depth]]


def differences():
    normal = lambda n: np.round(RNG.standard_normal(n) + 0.4, 3).tolist()
    samples = {
        "three": normal(3),
        "five": normal(5),
        "six": normal(6),
        "ten": normal(10),
        "forty-nine": normal(49),
        "sixty": np.round(np.sin(np.arange(60)) + 0.2 + np.arange(60) / 991, 5).tolist(),
        "tied": [1.0, -1.0, 2.0, 2.0, -3.0, 4.0, 4.0, 4.0, 5.0],
        "zeros": [0.0, 1.5, -0.5, 0.0, 2.5, 3.5, 4.25, -1.0, 5.0],
    }
    for name, values in samples.items():
        tied = name in ("tied", "zeros")
        yield {
            "name": name,
            "values": values,
            "wilcoxon": wilcoxon(values),
            "center": np.median(averages(values)),
            "center_interval": tied_center_interval(values) if tied else center_interval(values),
        }


def bca():
    mean = lambda x, axis=-1: np.mean(x, axis=axis)
    ratio = lambda x, y, axis=-1: np.mean(x, axis=axis) / np.mean(y, axis=axis)
    samples = {
        "mean of 12": ([log_normal(12, noise=0.8)], mean),
        "mean of 30": ([log_normal(30, noise=1.2)], mean),
        "ratio of means of 9 and 14": ([log_normal(9, noise=0.7), log_normal(14, 6)], ratio),
    }
    for name, (data, statistic) in samples.items():
        arrays = [np.array(values) for values in data]
        # Odd and small, so that ties with the estimate and interpolation between neighbours both matter.
        replicates = np.array([float(statistic(*[RNG.choice(a, len(a)) for a in arrays])) for _ in range(299)])
        replicates = np.round(replicates, 4)
        estimate = float(statistic(*arrays))
        replicates[:3] = estimate
        alpha = 0.025
        low, high, acceleration = _bca_interval(arrays, statistic, -1, alpha, replicates, None, np)
        share = (np.sum(replicates < estimate) + np.sum(replicates <= estimate)) / (2 * len(replicates))
        jackknives = []
        for j, values in enumerate(arrays):
            left_out = [arrays[:j] + [np.delete(values, i)] + arrays[j + 1 :] for i in range(len(values))]
            jackknives.append([float(statistic(*each)) for each in left_out])
        long_run = stats.bootstrap(arrays, statistic, n_resamples=100_000, batch=5000, rng=1, method="BCa", vectorized=True)
        yield {
            "name": name,
            "samples": data,
            "estimate": estimate,
            "replicates": replicates.tolist(),
            "jackknives": jackknives,
            "bias": stats.norm.ppf(share),
            "acceleration": float(np.squeeze(acceleration)),
            "probabilities": [float(np.squeeze(low)), float(np.squeeze(high))],
            "interval": np.quantile(replicates, [float(np.squeeze(low)), float(np.squeeze(high))]).tolist(),
            "long_run": [float(end) for end in long_run.confidence_interval],
        }


def ratio():
    for name, count, other in [("two", 2, 2), ("five", 5, 5), ("thirty", 31, 31), ("five and eleven", 5, 11)]:
        baseline, candidate = log_normal(count), log_normal(other, 13)
        value = float(np.median(candidate) / np.median(baseline))
        of_medians = lambda x, y, axis=-1: np.median(y, axis=axis) / np.median(x, axis=axis)
        arguments = dict(n_resamples=50_000, batch=5000, rng=2, method="BCa", vectorized=True)
        exact = min(count, other) < 6
        case = {"name": name, "baseline": baseline, "candidate": candidate}
        if exact:
            apart = np.exp(welch(np.log(baseline).tolist(), np.log(candidate).tolist(), 0.95)).tolist()
        else:
            apart = [float(end) for end in stats.bootstrap((baseline, candidate), of_medians, **arguments).confidence_interval]
        p_value = mann_whitney(baseline, candidate)["p_value"]
        case["apart"] = {"ratio": value, "interval": widened(apart, value), "p_value": p_value, "exact": exact}
        yield case


def geometric_mean():
    for values in [log_normal(2), log_normal(7, 1.2), log_normal(40, 0.9)]:
        yield {"values": values, "value": stats.gmean(values), "interval": log_t_interval(values)}


def geometric_mean_of_ratios():
    """Satterthwaite 1946, for the mean over tests of mean logarithms."""
    for sizes in [(5,), (3, 4, 10), (6, 6), (2, 30, 30, 8, 12)]:
        tests = [log_normal(size, 0.8 + 0.2 * i, 0.05 * (i + 1)) for i, size in enumerate(sizes)]
        logs = [np.log(test) for test in tests]
        center = np.mean([log.mean() for log in logs])
        parts = np.array([log.var(ddof=1) / len(log) for log in logs]) / len(logs) ** 2
        freedom = parts.sum() ** 2 / np.sum(parts**2 / (np.array(sizes) - 1))
        half = stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum())
        yield {"tests": tests, "value": np.exp(center), "interval": np.exp([center - half, center + half]).tolist()}


def t_quantile():
    for freedom in [1, 1.5, 2, 4, 9.25, 29, 200, 999, 1000, 1e6, 1e7]:
        for probability in [0.75, 0.95, 0.975, 0.995, 0.9995]:
            yield {"freedom": freedom, "probability": probability, "value": stats.t.ppf(probability, freedom)}


def normal_quantile():
    for probability in [0.0005, 0.025, 0.3, 0.8, 0.975, 0.9995]:
        value = stats.norm.ppf(probability)
        yield {"probability": probability, "value": value, "two_sided": 2 * stats.norm.sf(abs(value))}


SECTIONS = [
    summary, two_samples, differences, rank_distribution, bca, ratio,
    geometric_mean, geometric_mean_of_ratios, t_quantile, normal_quantile,
]
golden = {"made_by": f"make_statistics.py, SciPy {scipy.__version__}, NumPy {np.__version__}"}
for section in SECTIONS:
    golden[section.__name__] = list(section())
# One case a line: a change is then seen in its place.
lines = [f'"made_by": {json.dumps(golden.pop("made_by"))}']
for name, section_cases in golden.items():
    lines.append(f'"{name}": [\n' + ",\n".join(json.dumps(case, default=float) for case in section_cases) + "\n]")
sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")
