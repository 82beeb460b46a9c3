"""Training and scoring on a GPU, with data of MSLR-WEB30K's size; needs one, and numba-cuda.

3.84 million documents × 136 float32 features (2.1 GB) in 31,531 queries of 5 to 1,251 documents, drawn as in
`bench_lambda_mart`. Next to each time is its floor: bytes that must be moved over the bandwidth of a copy on the
device, measured first; of trees, operations over what the multiprocessors can do at their highest clock, too. Our own
CPU code runs beside it, on ``--threads`` threads, and XGBoost's GPU ranker if it is installed. Claims, on one H200:

1. Pairs, MAP and nDCG@10 to a gap of 1e-3 in at most 0.5 s after upload, 1 s with it; from the call of fit to the
   certificate. The whole fit, which also ranks the training queries for what the bound proves, is given beside it.
   Objectives are within 1e-6 of the CPU's.
2. Linear scoring at 60 % of the bandwidth, whether rows are in order or shuffled.
3. 100 trees of LambdaMART in at most 1 s after binning.
4. nDCG@10 on other queries within .001 of our CPU code's, on 240,000 documents.
5. At least 1.5 times as fast as XGBoost's GPU ranker, both after binning, at equal nDCG@10 or a higher one.

Then, without claims: queries of 100,000 documents, data that the device has no room for, trees of other kinds, auto.
Compilation is not counted: everything is done once on a few queries first. ``--only`` for some of the parts.
"""

from __future__ import annotations

import argparse
import os
import sys

import gpu_max_margin as margin
import gpu_trees as trees
from gpu_data import QUERIES, limits_of, make
from rankwright.errors import InputError
from rankwright.gpu import device

PARTS = ("scoring", "max-margin", "trees", "long", "limited", "kinds", "auto")
HELD_OUT = 1_700  # queries, about 200,000 documents


def main() -> int:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--no-cpu", dest="cpu", action="store_false", help="Leave out max-margin training on the CPU.")
    parser.add_argument("--cpu-trees", type=int, default=5, help="Trees that the CPU grows on all documents.")
    args = parser.parse_args()
    try:
        device.check_device()
    except InputError as error:
        print(error.message)
        return 0
    limits = limits_of()
    data, other = make(args.queries), make(HELD_OUT, 1)
    print(f"{device.name()}; {data.n_queries:,} queries, {data.n_docs:,} documents × {data.n_features} float32,")
    print(f"{data.X.nbytes / 1e9:.2f} GB; a copy on the device moves {limits.bytes / 1e12:.2f} TB/s", flush=True)
    if "scoring" in args.only:
        margin.measure_upload(data.X)
        margin.measure_scoring(data.X, limits, args.repeat)
    if "max-margin" in args.only:
        margin.measure_fits(data, limits, args)
    if "trees" in args.only:
        trees.measure_trees(data, other, limits, args)
    if "long" in args.only:
        margin.measure_long_queries(data, args.threads)
    if "limited" in args.only:
        margin.measure_limited(data, args.threads)
        trees.measure_limited_trees(data, other, args.threads)
    if "kinds" in args.only:
        trees.measure_kinds(data, args.threads)
    if "auto" in args.only:
        trees.measure_auto(data, other, args.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
