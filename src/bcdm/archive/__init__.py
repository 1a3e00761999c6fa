"""Archives: very many measurements, reconstructed shard by shard by workers that may die."""
