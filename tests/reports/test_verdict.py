"""The verdict that a report opens with: computed from the tests that are there, and claiming no more than they say."""

import json
import re
from statistics import fmean

import pytest
from results_folder import METHODS, write_results
from scipy import stats
from test_report import Page, values_of

from rankwright.reports import write_report


def table(path, values, **manifest):
    """Four columns from ``{method: values}``, a manifest, and the report's words from its summary on."""
    path.mkdir()
    rows = [
        f"{method},q{q},AP,{value}" for method, of in values.items() for q, value in enumerate(of) if value is not None
    ]
    (path / "per_query.csv").write_text("\n".join(["method,query,measure,value", *rows]) + "\n")
    if manifest:
        (path / "manifest.json").write_text(json.dumps(manifest))
    return opening_of(path)


def opening_of(folder):
    """The first words in the page after its navigation, up to the next section."""
    page = Page(write_report(folder, folder / "report.html").read_text())
    text = " ".join("".join(page.text).split())
    return text.partition("Sentences and tables do not. Summary")[2]


def test_a_significant_gain_with_its_figures(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=120)
    text = opening_of(folder)
    values = values_of(tmp_path)
    mean = {m: fmean(v for (_, measure, own, _), v in values.items() if (measure, own) == ("AP", m)) for m in METHODS}
    best = max(mean, key=mean.get)
    means = f"AP {mean[best]:.4f} against {mean['bm25']:.4f}, a difference of {mean[best] - mean['bm25']:+.4f}"
    assert text.startswith(f"{best} is significantly better than the baseline bm25: {means} (+")
    found = re.search(r"95 % interval ([+−][\d.]+) to ([+−][\d.]+), on 120 queries \(p (.) ([\d.]+) by the", text)
    low, high = (float(found[at].replace("−", "-")) for at in (1, 2))
    assert 0 < low < mean[best] - mean["bm25"] < high
    p = {}
    for method in set(METHODS) - {"bm25"}:
        gains = [values["a", "AP", method, f"q{q}"] - values["a", "AP", "bm25", f"q{q}"] for q in range(120)]
        p[method] = stats.wilcoxon([round(gain, 12) for gain in gains]).pvalue
    order = sorted(p, key=p.get)
    holm = max(p[name] * (4 - at) for at, name in enumerate(order[: order.index(best) + 1]))
    assert found[3] == ("<" if holm < 1e-4 else "=")
    assert float(found[4]) == pytest.approx(max(holm, 1e-4), rel=0.05)
    assert "by the Wilcoxon signed-rank test, after Holm's correction for 4 methods). It has the highest mean" in text
    assert "of 5 methods on the test queries" in text
    assert "not against each other" in text


def test_no_method_is_better(tmp_path):
    text = opening_of(write_results(tmp_path / "results", data=("a",), same=True, n_queries=30))
    assert text.startswith("No method is significantly better than the baseline bm25. svm-mrr has the highest mean")
    assert "That may be chance." in text.split("Means")[0]
    assert "is significantly better" not in text.split("Means")[0].replace("No method is significantly better", "")


def test_the_baseline_is_highest_and_others_are_worse(tmp_path):
    base = [0.5 + q / 100 for q in range(20)]
    text = table(tmp_path / "r", {"base": base, "x": [value - 0.1 for value in base], "y": base})
    said = "No method is significantly better than the baseline base. base has the highest mean on the test queries"
    assert text.startswith(f"{said}, 0.5950 in AP on 20 queries; 1 method is significantly worse.")


def test_one_method_against_the_baseline_needs_no_correction(tmp_path):
    base = [0.1 * (q % 9) for q in range(24)]
    text = table(tmp_path / "r", {"base": base, "x": [value + 0.05 * (-1) ** q for q, value in enumerate(base)]})
    assert text.startswith("x is not significantly better than the baseline base. ")
    assert "correction for" not in text.split("Means")[0]
    better = table(tmp_path / "s", {"base": base, "x": [value + 0.05 for value in base]})
    assert better.startswith("x is significantly better than the baseline base: AP 0.4")
    assert "has the highest mean" not in better.split("Means")[0]  # of two, that is no news


def test_the_highest_mean_need_not_be_significant(tmp_path):
    base = [0.4] * 30
    sure = [0.41] * 30
    lucky = [1.0, 1.0] + [0.4] * 28  # on two queries alone
    text = table(tmp_path / "r", {"base": base, "sure": sure, "lucky": lucky})
    assert text.startswith("sure is significantly better than the baseline base: AP 0.4100 against 0.4000")
    assert "lucky has the highest mean on the test queries, 0.4400, but its difference is not significant." in text


def test_no_correction_is_said(tmp_path):
    base = [0.4] * 30
    values = {"base": base, "x": [0.41] * 30, "y": [0.42] * 30}
    text = table(tmp_path / "r", values, tests=["t"], correction="none", baseline="base")
    assert "by the paired t-test, not corrected for the 2 methods compared)" in text


def test_nothing_to_compare_with(tmp_path):
    text = table(tmp_path / "r", {"mine": [0.5, 0.25]})
    assert text.startswith("mine has a mean AP of 0.3750 on 2 queries; there is nothing to compare with.")
    text = table(tmp_path / "s", {"x": [0.5, None], "y": [None, 0.25]})
    assert text.startswith("x has a mean AP of 0.5000 on 1 query; there is nothing to compare with.")
    assert "left out, as they have too few of the queries that the others have (1): y (0)" in text


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ((0.1, 0.1), "On both data sets at least one method is significantly better than the baseline base in AP."),
        ((0.1, 0.0), "On 1 of 2 data sets at least one method is significantly better than the baseline base in AP."),
        ((0.0, -0.1), "No method is significantly better than the baseline base on either data set in AP."),
        ((0.1, 0.1, 0.1), "On all 3 data sets at least one method is significantly better than the baseline base"),
    ],
)
def test_several_data_sets_are_counted(tmp_path, gains, said):
    rows = [
        f"d{at},{method},q{q},AP,{0.5 + (gain if method == 'x' else 0)}"
        for at, gain in enumerate(gains)
        for method in ("base", "x")
        for q in range(20)
    ]
    (tmp_path / "per_query.csv").write_text("\n".join(["data,method,query,measure,value", *rows]) + "\n")
    text = opening_of(tmp_path)
    assert text.startswith(said)
    better = sum(gain > 0 for gain in gains)
    assert (f"Significantly better than base: x on {better} of {len(gains)} data sets." in text) == (better > 0)
    assert text.count("x is significantly better than the baseline base: AP") == better  # each data set's own verdict


def test_the_verdict_comes_before_warnings(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=40)
    text = opening_of(folder)
    assert "in doubt" not in text
    assert 0 < text.index("These results are incomplete") < text.index("Means")
    assert text.startswith("svm-map is significantly better")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["data"] = [{"name": "a", "warnings": ["3 of 9 test queries are also in the training data"]}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    text = opening_of(folder)
    doubt = text.index("The warning below puts these figures in doubt.")
    assert doubt < text.index("a: 3 of 9 test queries are also in the training data.")
