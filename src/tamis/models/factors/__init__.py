"""Latent factors of users and items."""
