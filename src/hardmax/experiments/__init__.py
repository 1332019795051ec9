"""Tables and figures that `hardmax reproduce` makes: their declarations, the runner, and the pages."""
