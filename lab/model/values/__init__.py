"""Values as people write them: names, rates, sizes, times, links; parsing, validation and suggestions."""
