//go:build !v034

package main

import (
	"errors"

	"k8s.io/dynamic-resource-allocation/structured"
)

// chooseVariant forces an implementation; "" and "auto" leave the choice to upstream.
func chooseVariant(name string) {
	if name == "" || name == "auto" {
		structured.EnableAllocators()
		return
	}
	structured.EnableAllocators(name)
}

func failedOnNode(err error) bool { return errors.Is(err, structured.ErrFailedAllocationOnNode) }
