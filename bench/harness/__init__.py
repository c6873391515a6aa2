"""What the programs of bench/ share: allocators, rows, trials, statistics and reports."""
