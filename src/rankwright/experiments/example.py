"""The experiment that `rankwright experiment init` writes: it runs as it is, on the documentation of Python."""

from __future__ import annotations

__all__ = ["EXAMPLE"]

EXAMPLE = """\
# An experiment: data sets, methods, a protocol, and how the methods are compared.
#   rankwright experiment check FILE      finds mistakes before anything runs
#   rankwright experiment run FILE        runs it; run it again to go on after an interruption
#   rankwright experiment table FOLDER    shows the results

[experiment]
name = "python-docs"
seed = 0                            # of the splits, of random search, and of methods that draw
measures = ["AP", "nDCG@10", "RR"]  # what the test queries are evaluated by
baseline = "bm25"                   # the method that the others are compared with
tests = ["wilcoxon"]                # also: t, sign, randomization
correction = "holm"                 # for the number of methods; also: bonferroni, none
output = "python-docs-results"      # folder of the results, beside this file
# save_models = true                # keep every model
# choose_by = "nDCG@10"             # what validation chooses by, instead of the measure of each method

# ---------------------------------------------------------------- data: one [[data]] for each data set

[[data]]
name = "python-docs"
collection = "python-docs"          # or a folder with docs.jsonl, queries.jsonl and qrels.txt
feature_sets = ["base", "sigir06"]  # 5 retrieval functions x 3 analysers, and the 7 sums of SIGIR'06
per_field = true                    # the sets for every field of the documents too
depth = 50                          # candidates of every retrieval function

# Other data sets; paths are relative to this file, or to the folder in RANKWRIGHT_DATA or after --data:
#   features = ["all.txt.gz"]                                    feature files, split by [protocol]
#   train = "train.txt"   valid = "vali.txt"   test = "test.txt" a split of its own
#   folds = "ohsumed"                                            Fold1, Fold2 ... with train, vali and test files
#   folds = ["S1.txt", "S2.txt", "S3.txt", "S4.txt", "S5.txt"]   LETOR's folds from its parts
#   runs = ["*.run"]      qrels = "qrels.txt"                    the runs of several systems as features

# ---------------------------------------------------------------- protocol: for data without a split of their own

[protocol]
kind = "folds"                      # every query is tested once ...
folds = 3                           # ... and one more fold is for validation
# kind = "trials"                   # or random trials in which every query plays each role equally often
# trials = 50
# train = 10                        # queries: their number, or their share as 0.2
# valid = 5
# kind = "fixed"                    # or one random split

# ---------------------------------------------------------------- methods: one [[method]] for each row of the table

[[method]]
name = "bm25"
method = "feature:bm25[porter+stop]"  # a single feature, by name or number

[[method]]
name = "best function"
method = "best-feature"             # the one that is best on the validation queries

[[method]]
method = "svm-map"                  # C is chosen on the validation queries

[[method]]
method = "svm-mrr"
[method.grid]                       # values to choose from on the validation queries
C = [0.01, 0.1, 1, 10]

[[method]]
name = "svm-combo"
method = "svm-combo"
parameters = { losses = ["map", "ndcg@10", "mrr@10"] }

[[method]]
method = "lambdamart"
random = { n = 2 }                  # random search: so many points of the grid
[method.parameters]                 # of the estimator
n_trees = 60
patience = 15
tree_features = 0.3
[method.grid]
max_leaves = [4, 6, 8]             # a list of values ...
learning_rate = { low = 0.05, high = 0.3, log = true }  # ... or a range
"""
