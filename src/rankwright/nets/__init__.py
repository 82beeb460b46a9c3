"""Nets: RankNet and LambdaRank, linear or with a hidden layer."""
