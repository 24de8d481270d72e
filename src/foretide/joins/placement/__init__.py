"""How a join's plan places rows: salts, cells and the timeline of plan versions."""
