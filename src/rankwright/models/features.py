"""Old names, for callers that have not moved yet."""

from rankwright.data.matching import default_names
from rankwright.data.matching import pick_columns as picked
from rankwright.models.base import Model as NamedFeatures
from rankwright.models.base import as_row, as_table

__all__ = ["NamedFeatures", "as_row", "as_table", "default_names", "picked"]
