"""The papers' applications: user programs on Foretide, each small enough to read in one sitting."""
