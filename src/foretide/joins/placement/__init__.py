"""Salts, the timeline of plan versions, and the protocol that changes them; salts are known nowhere else."""
