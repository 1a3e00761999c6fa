"""A trained model on held-out images: which images, which numbers, and the records they become."""
