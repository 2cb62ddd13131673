"""Knowledge about models and machines: tables with their sources, and pure functions of them."""
