//go:build v034 || v035 || v036

package main

// enhanced: the hint about optional chaining came with 0.37.
func enhanced(err error) error { return err }
