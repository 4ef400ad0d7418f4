"""Pictures: one model of what there is to see; terminal, pixels, SVG and Graphviz draw it."""
