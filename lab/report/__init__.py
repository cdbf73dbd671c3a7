"""What a recorded run shows, for people: a root cause analysis in Markdown, and a page that plays it. Pure."""
