"""Where people and programs meet the filter. Surfaces are thin, and strangers to each other."""
