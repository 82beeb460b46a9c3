"""Methods as other libraries call them: one line with ours."""

import re
from importlib.resources import files

import pytest

import rankwright
from rankwright.errors import InputError
from rankwright.experiments.checks import check_text
from rankwright.training.methods import _NEAREST, _OTHER, _OUR_CLASSES, _SAME, METHODS, counterpart, parse_method


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("LGBMRanker", "LGBMRanker of LightGBM is lightgbm here"),
        ("xgboost.XGBRanker", "xgboost.XGBRanker of XGBoost is xgboost here"),
        ("rank:ndcg", "rank:ndcg of XGBoost is xgboost here"),
        ("6", "6 of RankLib is lambdamart here"),
        ("Coordinate Ascent", "Coordinate Ascent of RankLib is not here, the nearest is svm-map"),
        ("svm_rank", "svm_rank of SVMlight is rank-svm here"),
        ("allRank", "allRank is not here, the nearest is lambdarank"),
        ("tensorflow_ranking", "tensorflow_ranking is not here, the nearest is lambdarank"),
        ("CatBoostRanker", "CatBoostRanker of CatBoost is catboost here"),
        ("lightfm", "LightFM recommends items to users"),
        ("RankingSVM", "RankingSVM is rank-svm here"),
    ],
)
def test_methods_of_other_libraries_are_answered_with_ours(name, told):
    with pytest.raises(InputError) as error:
        parse_method(name)
    assert str(error.value).startswith(f"unknown method {name!r}; {told}")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 160


def test_the_tables_lead_to_methods_that_exist_and_hide_none():
    ours = {own for table in (_SAME, _NEAREST) for methods in table.values() for own in methods}
    assert ours | set(_OUR_CLASSES.values()) <= set(METHODS)
    theirs = [
        name
        for table in (_SAME, _NEAREST)
        for methods in table.values()
        for names in methods.values()
        for name in names.split()
    ]
    assert not {*theirs, *_OUR_CLASSES, *_OTHER} & {name.replace("-", "") for name in METHODS}
    assert all(name.isalnum() and name == name.lower() for name in theirs)
    assert counterpart("nonsense") == ""


def test_ours_by_class():
    for name, own in _OUR_CLASSES.items():
        assert METHODS[own].kind.lower() == name


def test_python_names_the_estimator():
    with pytest.raises(AttributeError, match=r"no attribute 'LGBMRanker'; .* is LibraryRanker\(\"lightgbm\"\) here"):
        _ = rankwright.LGBMRanker
    assert not hasattr(rankwright, "__wrapped__")


def test_experiment_files_get_the_same_hint(tmp_path):
    text = (files("rankwright.experiments") / "example.toml").read_text()
    text = re.sub(r'method = "svm-map"', 'method = "XGBRanker"', text, count=1)
    _, problems = check_text(text, tmp_path / "x.toml")
    assert any("XGBRanker of XGBoost is xgboost here" in str(problem) for problem in problems)
