"""The lab's networks in PyTorch, for autograd to differentiate: the torch engine's, and `gradlab.torch`'s modules.

Nothing here is imported before somebody asks for torch.
"""
