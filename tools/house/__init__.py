"""What the project's own tools share: the tree, the tables and a look at source text."""
