"""The network: a bidirectional GRU encoder, attention, a GRU decoder, and the fast pass through them in training."""
