"""Max-margin training for a ranking measure: from the hinge and its cutting planes to the estimators."""
