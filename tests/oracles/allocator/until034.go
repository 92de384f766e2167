//go:build v034

package main

// chooseVariant does nothing: 0.34 picks by itself, its public API cannot force an implementation.
func chooseVariant(string) {}

// failedOnNode: 0.34 has no such error.
func failedOnNode(error) bool { return false }
