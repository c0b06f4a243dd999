"""RidgeFill: training-free late-layer cache fill for faster prefill."""
