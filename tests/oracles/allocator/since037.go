//go:build !v034 && !v035 && !v036

package main

import "k8s.io/dynamic-resource-allocation/cel"

func enhanced(err error) error { return cel.EnhanceRuntimeError(err) }
