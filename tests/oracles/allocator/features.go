package main

import (
	"fmt"
	"reflect"

	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Features that have several names in some version.
var severalNames = map[string][]string{
	"DeviceBindingAndStatus": {"DeviceBinding", "DeviceStatus"}, // one name since 0.35, two in 0.34
}

func setFeatures(target any, in map[string]bool, all bool) error {
	v := reflect.ValueOf(target).Elem()
	for i := range v.NumField() {
		if all {
			v.Field(i).SetBool(true)
		}
	}
	for name, val := range in {
		if name == "ALL" {
			continue
		}
		names := []string{name}
		if !v.FieldByName(name).IsValid() && severalNames[name] != nil {
			names = severalNames[name]
		}
		for _, one := range names {
			f := v.FieldByName(one)
			if !f.IsValid() {
				return fmt.Errorf("unknown feature %q", name)
			}
			f.SetBool(val)
		}
	}
	return nil
}

// celFeatures takes over what both know in the version at hand: list attributes came with 0.36.
func celFeatures(f structured.Features) cel.Features {
	out := cel.Features{EnableConsumableCapacity: f.ConsumableCapacity}
	from, to := reflect.ValueOf(f).FieldByName("ListTypeAttributes"), reflect.ValueOf(&out).Elem().FieldByName("EnableListTypeAttributes")
	if from.IsValid() && to.IsValid() {
		to.SetBool(from.Bool())
	}
	return out
}
