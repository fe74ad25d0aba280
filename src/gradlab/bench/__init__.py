"""Speed benchmarks: the same networks, data and batches in gradlab and in its peers, in one process, on one core."""
