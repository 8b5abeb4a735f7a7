"""Clients that can send what the official ones refuse to, and answers in one form for both protocols."""
