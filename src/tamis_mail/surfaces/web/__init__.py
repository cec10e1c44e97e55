"""`tamis serve web`: the page, on which a person reads verdicts and their reasons, and corrects them."""
