"""Everything read from files and tables: column names, tables, judgements, formats."""
