"""Pictures of a fabric as text: SVG, Mermaid and Graphviz."""
