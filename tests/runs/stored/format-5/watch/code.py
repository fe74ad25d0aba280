

# Sequential, as it was watched
# Sequential(
#   (0): Linear(in_features=4, out_features=8, bias=True)
#   (1): Tanh()
#   (2): Linear(in_features=8, out_features=1, bias=True)
# )
