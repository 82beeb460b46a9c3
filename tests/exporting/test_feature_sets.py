"""Feature sets: engines that read them compute our features, and where they do not, the set says so."""

import dataclasses
import json
import re

import numpy as np
import pytest
import tantivy

from exporting import small_models
from exporting.lucene_model import Engine, kept_length
from rankwright import InputError, LinearModel, build_index, feature_set
from rankwright.boosting.tree_model import TreeModel
from rankwright.exporting.counterparts import KEPT_LENGTHS
from rankwright.exporting.export import export_model
from rankwright.exporting.targets import ENGINES, engine_features, engine_names, find_target
from rankwright.text.features import Columns

FIELDS = ("title", "body")
NAMES = [
    *feature_set("base", FIELDS),
    *feature_set("sigir06", FIELDS),
    "bm25(k1=0.9,b=0.4)[porter,title]",
    "bm25(k1=0)[plain,body]",
    "jm(lambda=0.2)[porter]",
]
ODD = [
    'a "quoted" name',
    "größe",
    "two words",
    "a/b",
    "x\ny",
    "{{z}}",
    "doc:year",
    "price",
    "f7",
    "3",
    "a:rr",
    "b:score",
]
VOCABULARY = "engine engines running runs run lift wing wings the of café don large off t 3 tree trees walked engine's"
QUERIES = [
    "the running of large engines",
    "Café wings, don't lift_off!",
    "nothing that occurs zzz",
    "3 engines' s",
    "the tree's engine",
]


def documents(n, longest):
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(VOCABULARY.split(), int(rng.integers(2, longest)))) for _ in range(2 * n)]
    return [{"title": title, "body": body} for title, body in zip(texts[:n], texts[n:], strict=True)]


def columns_of(folder, texts, names):
    index = build_index([(f"d{at}", fields) for at, fields in enumerate(texts)], folder / "docs.index")
    return Columns(index, names)


def engine_values(engine, names, texts, query, *, legacy, files=None):
    """Return the feature values that a model of the engine computes, one row per document; NaN for missing."""
    made = engine_features(engine, names)
    running = Engine(json.loads(made.files["index.json"]), texts, legacy=legacy)
    if engine == "opensearch":
        own = json.loads(made.files[files or "featureset.json"])["featureset"]["features"]
        queries = [(feature["name"], feature["template"]) for feature in own]
    else:
        own = json.loads(made.files["feature_extractors.json"])
        queries = [(part["query_extractor"]["feature_name"], part["query_extractor"]["query"]) for part in own]
    assert [name for name, _ in queries] == list(names)
    parameters = {"keywords": query, "query_text": query}
    found = [running.score(template, parameters) for _, template in queries]
    return np.array([[np.nan if value is None else value for value in column] for column in found]).T


@pytest.mark.parametrize(
    ("engine", "legacy", "files"),
    [
        ("opensearch", False, "featureset.json"),
        ("opensearch", True, "featureset-legacy.json"),
        ("elasticsearch", True, None),
    ],
)
def test_lucene_computes_our_features(tmp_path, engine, legacy, files):
    texts = documents(30, 20)
    made = engine_features(engine, NAMES)
    names = [one.name for one in made.counterparts if one.status != "none"]
    columns = columns_of(tmp_path, texts, names)
    for query in QUERIES:
        ours = columns.values(query, range(len(texts)))
        theirs = engine_values(engine, names, texts, query, legacy=legacy, files=files)
        np.testing.assert_allclose(theirs, ours, rtol=3e-6, atol=1e-6)


def test_the_older_bm25_needs_its_own_feature_set(tmp_path):
    texts, names = documents(10, 10), ["bm25[plain,title]"]
    ours = columns_of(tmp_path, texts, names).values("running engines", range(10))
    theirs = engine_values("opensearch", names, texts, "running engines", legacy=True)
    assert ours.any()
    np.testing.assert_allclose(theirs, 2.2 * ours, rtol=1e-5)


def test_what_differs_is_said_and_nothing_else_does(tmp_path):
    """Long documents, repeated words: only features with a note about them differ."""
    texts = documents(30, 150)
    made = engine_features("opensearch", NAMES)
    columns = columns_of(tmp_path, texts, [one.name for one in made.counterparts if one.status != "none"])
    kept = [one for one in made.counterparts if one.status != "none"]
    for query, said in (("large engines", "rounded down"), ("engines engines large", "repeats")):
        ours = columns.values(query, range(len(texts)))
        theirs = engine_values("opensearch", columns.names, texts, query, legacy=False)
        differ = ~np.isclose(theirs, ours, rtol=1e-5).all(axis=0)
        allowed = np.array(["rounded down" in one.note or said in one.note for one in kept])
        assert differ.any()
        assert not (differ & ~allowed).any(), [kept[at].name for at in np.flatnonzero(differ & ~allowed)]


def test_features_without_counterpart_are_no_counterpart(tmp_path):
    texts = documents(20, 20)
    names = [one.name for one in engine_features("opensearch", NAMES).counterparts if one.status == "none"]
    assert {name.partition("[")[0] for name in names} == {"cosine", "dirichlet", "log-bm25"}
    names = [name for name in names if not name.startswith("dirichlet")]  # whose similarity the model lacks
    ours = columns_of(tmp_path, texts, names).values("running engines", range(20))
    theirs = engine_values("opensearch", names, texts, "running engines", legacy=False)
    assert not np.isclose(theirs, ours, rtol=1e-2).all(axis=0).any()


def test_a_field_that_documents_lack_changes_statistics(tmp_path):
    """The note about documents that have the field is needed."""
    texts = documents(20, 20)
    for fields in texts[::2]:
        fields["title"] = ""
    names = ["bm25[plain,title]", "log-tf[porter+stop,title]"]
    ours = columns_of(tmp_path, texts, names).values("running engines", range(20))
    theirs = engine_values("opensearch", names, texts, "running engines", legacy=False)
    close = np.isclose(theirs, ours, rtol=1e-3).all(axis=0)
    assert close.tolist() == [False, True]


def test_lengths_in_a_byte():
    lengths = np.arange(1, 20_000)
    kept = np.array([kept_length(int(length)) for length in lengths])
    assert (kept[:KEPT_LENGTHS] == lengths[:KEPT_LENGTHS]).all()
    assert kept[KEPT_LENGTHS] < lengths[KEPT_LENGTHS]
    assert ((lengths - kept) / lengths).max() < 1 / 8


def test_numbers_of_documents_are_missing_where_they_are_not():
    texts = [{"price": 2.5}, {}, {"price": 0.0}]
    found = engine_values("opensearch", ["price", "price(missing=7)"], texts, "anything", legacy=False)
    np.testing.assert_array_equal(found.T, [[2.5, np.nan, 0.0], [2.5, 7.0, 0.0]])
    store = json.loads(engine_features("solr", ["price", "price(missing=7)"]).files["features.json"])
    assert [feature["params"] for feature in store] == [
        {"field": "price", "defaultValue": "NaN"},
        {"field": "price", "defaultValue": "7.0"},
    ]
    text = engine_features("vespa", ["price(missing=7)"]).files["schema.sd"]
    assert (
        "function price_missing_7() {\n        expression: if (isNan(attribute(price)), 7.0, attribute(price))" in text
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_every_feature_is_defined_once_and_every_file_can_be_read(engine):
    names = [*NAMES, *ODD, "bm25[own,title]"]
    made = engine_features(engine, names)
    assert [one.name for one in made.counterparts] == names
    assert all(one.note and "\n" not in one.note for one in made.counterparts)
    for file, text in made.files.items():
        if file.endswith(".json"):
            json.loads(text)
    called = engine_names(engine, names)
    assert len(set(called.values())) == len(names)
    status = {one.name: one.status for one in made.counterparts}
    assert status["price"] == status["doc:year"] == status["größe"] == "field"
    assert {status[name] for name in ("f7", "3", "a:rr", "b:score", "bm25[own,title]", "cosine[plain]")} == {"none"}
    report = made.report()
    assert all(name in report for name in names if "\n" not in name)
    assert sum(map(made.count, ("exact", "field", "approximate", "none"))) == len(names)


def test_solr_fields_and_features_fit_each_other():
    made = engine_features("solr", [*NAMES, *ODD])
    schema, store = json.loads(made.files["schema.json"]), json.loads(made.files["features.json"])
    types = {kind["name"] for kind in schema["add-field-type"]}
    fields = {field["name"]: field["type"] for field in schema["add-field"]}
    assert len(types) == len(schema["add-field-type"])
    assert set(fields.values()) - {"pdouble"} == types
    assert {copy["dest"] for copy in schema["add-copy-field"]} == {name for name in fields if fields[name] != "pdouble"}
    assert [feature["name"] for feature in store] == list(engine_names("solr", [*NAMES, *ODD]).values())
    for feature, one in zip(store, made.counterparts, strict=True):
        assert re.fullmatch(r"[A-Za-z]\w*", feature["name"], re.ASCII)  # logged as name=value,name=value
        if "q" in feature["params"]:
            found = re.fullmatch(r"\{!dismax qf=(\w+) mm=0\}\$\{text\}", feature["params"]["q"])
            assert found is not None
            assert found[1] in fields
        elif one.status == "field":
            assert feature["params"]["field"] in fields
            assert feature["params"]["defaultValue"] == "NaN"
    similarity = {kind["name"]: kind["similarity"] for kind in schema["add-field-type"]}
    assert similarity["rankwright_porter_bm25_k1_0_9_b_0_4"]["k1"] == 0.9
    assert "the\n" in made.files["rankwright_stopwords.txt"]


def test_vespa_functions_use_fields_that_are_there():
    made = engine_features("vespa", [*NAMES, *ODD])
    text = made.files["schema.sd"]
    fields = re.findall(r"^field (\w+) type (\w+) \{$", text, re.MULTILINE)
    assert len(dict(fields)) == len(fields)
    used = set(re.findall(r"(?:bm25|nativeRank)\((\w+)\)", text))
    assert used == {name for name, kind in fields if kind == "string"}
    functions = re.findall(r"^    function (\w+)\(\) \{$", text, re.MULTILINE)
    assert functions == list(engine_names("vespa", [*NAMES, *ODD]).values())
    listed = text.partition("match-features {")[2].split("}")[0].split()
    assert listed == functions
    assert text.count("{") == text.count("}")
    assert "bm25(title_porter_bm25_k1_0_9_b_0_4).k1: 0.9" in text
    assert "expression: bm25(title_plain) / 2.2" in text
    assert set(re.findall(r'defaultIndex:"(\w+)"', json.loads(made.files["log.json"])["yql"])) == used


def test_names_in_an_engine_do_not_depend_on_which_are_used():
    names = ["a b", "a-b", "bm25[plain]"]
    some = json.loads(engine_features("solr", names, used=[1]).files["features.json"])
    assert [feature["name"] for feature in some] == [engine_names("solr", names)["a-b"]] == ["a_b_2"]


def test_names_of_model_and_set_are_those_given():
    for engine in ENGINES:
        made = engine_features(engine, ["bm25[plain]"], model="mine", feature_set="my_features", index="shop")
        whole = "".join(made.files.values())
        assert "mine" in made.files["search.json"]
        assert engine == "elasticsearch" or "my_features" in whole


def test_rank_features_of_vespa_stay_as_they_are():
    names = ["fieldMatch(title).completeness", "attribute(price)", "price", "bm25(b=0.4)[plain]"]
    called = engine_names("vespa", names)
    assert list(called.values()) == [*names[:2], "price", "bm25_b_0_4_plain"]
    text = engine_features("vespa", names).files["schema.sd"]
    assert re.findall(r"function (\w+)", text) == ["price", "bm25_b_0_4_plain"]
    assert text.partition("match-features {")[2].split("}")[0].split() == list(called.values())


def test_an_engine_without_feature_sets():
    with pytest.raises(InputError, match="no feature sets for 'lightgbm'; expected one of opensearch"):
        engine_features("lightgbm", ["a"])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_export_has_the_feature_set_of_its_model(tmp_path, engine):
    """Names in the model are those of the feature set, and only used features are defined."""
    names = ("bm25[porter,title]", "price", "not used", "cosine[plain]", "größe", "a b", "a-b")
    rng = np.random.default_rng(0)
    forest = small_models.forest(3, awkward=[0.5, 1.0])
    feature = np.where(forest.feature >= 0, np.array([0, 1, 3, 4, 5, 6])[forest.feature], -1).astype(np.int32)
    model = TreeModel(7, names, dataclasses.replace(forest, feature=feature))
    done = export_model(model, engine, tmp_path / "shop", feature_set="shop_set")
    assert done.made.off == 0
    assert any(note.startswith(f"features in {engine}: 4 read from fields, 1 approx") for note in done.notes)
    files = {path.name: path.read_text() for path in (tmp_path / "shop").iterdir()}
    assert set(files) == set(done.files)
    used = [name for name in names if name != "not used"]
    called = [engine_names(engine, names)[name] for name in used]
    assert defined(engine, files) == called
    assert asked_for(engine, files) == set(called)
    assert "not used" not in files["features.txt"]
    renamed = {name: new for name, new in zip(used, called, strict=True) if name != new}
    assert json.loads(files.get("feature_names.json", "{}")) == renamed
    X = rng.normal(size=(50, 7)).astype(np.float32).astype(np.float64)
    scorer = find_target(engine).read({name: text.encode() for name, text in files.items()}, names)
    np.testing.assert_allclose(scorer(X, np.array([0, 50])), model.score(X), rtol=1e-5, atol=1e-6)


def defined(engine, files):
    """Return the features that the files of an engine define."""
    if engine == "opensearch":
        return [feature["name"] for feature in json.loads(files["featureset.json"])["featureset"]["features"]]
    if engine == "elasticsearch":
        own = json.loads(files["model.json"])["inference_config"]["learning_to_rank"]["feature_extractors"]
        return [part["query_extractor"]["feature_name"] for part in own]
    if engine == "solr":
        return [feature["name"] for feature in json.loads(files["features.json"]) if feature["store"] == "shop_set"]
    return re.findall(r"function (\w+)\(\)", files["schema.sd"])


def asked_for(engine, files):
    """Return the features that the model of an engine names."""
    model = json.loads(files["shop.json" if engine == "vespa" else "model.json"])
    if engine == "opensearch":
        return set(re.findall(r'"split": "([^"]*)"', json.dumps(model, ensure_ascii=False)))
    if engine == "elasticsearch":
        return set(model["definition"]["trained_model"]["ensemble"]["feature_names"])
    if engine == "solr":
        return {feature["name"] for feature in model["features"]}
    assert "rank-profile shop inherits shop_set {" in files["rank-profile.txt"]
    assert "rank-profile shop_set {" in files["schema.sd"]
    return set(model["feature_names"])


def test_names_that_no_file_can_hold(tmp_path):
    with pytest.raises(InputError, match=r"the feature '\\ud800x' has no name in UTF-8"):
        export_model(LinearModel([1.0], ("\ud800x",)), "opensearch", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def tantivy_scores(texts, query):
    """Return the BM25 of a field by tantivy, which scores like Lucene before version 8, with the factor k1 + 1."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title", tokenizer_name="default")
    builder.add_integer_field("number", stored=True)
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=15_000_000, num_threads=1)
    for number, fields in enumerate(texts):
        writer.add_document(tantivy.Document(number=number, title=fields["title"]))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    scores = np.zeros(len(texts))
    for score, address in searcher.search(index.parse_query(query, ["title"]), limit=len(texts)).hits:
        scores[searcher.doc(address)["number"][0]] = score
    return scores


@pytest.mark.parametrize("longest", [20, 400])
def test_a_real_engine_agrees(tmp_path, longest):
    """The model of Lucene scores as tantivy does, lengths in a byte too; short documents have our BM25."""
    texts, name, query = documents(100, longest), "bm25(k3=inf)[plain,title]", "engines large tree walked"
    texts = [{"title": fields["title"].replace("'", " "), "body": ""} for fields in texts]
    ours = columns_of(tmp_path, texts, [name]).values(query, range(len(texts)))[:, 0]
    (feature,) = json.loads(engine_features("opensearch", [name]).files["featureset-legacy.json"])["featureset"][
        "features"
    ]
    ((words,),) = (part["match"].values() for part in feature["template"]["bool"]["should"])
    real = words["boost"] * tantivy_scores(texts, query)
    model = engine_values("opensearch", [name], texts, query, legacy=True, files="featureset-legacy.json")[:, 0]
    assert (real > 0).sum() > 50
    np.testing.assert_allclose(model, real, rtol=1e-6)
    assert np.isclose(ours, real, rtol=1e-6).all() == (longest <= KEPT_LENGTHS)
    np.testing.assert_allclose(ours, real, rtol=1 / 8)
