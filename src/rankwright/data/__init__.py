"""Data: RankingData, the formats it is read from and written to, the tie rule, splits and scaling."""
