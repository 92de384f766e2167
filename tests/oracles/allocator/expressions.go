package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

func runCel(c *inCase) (out celOut) {
	out.Name = c.Name
	defer func() {
		if r := recover(); r != nil {
			out.RuntimeError = fmt.Sprintf("PANIC: %v", r)
		}
	}()
	var features structured.Features
	if err := setFeatures(&features, c.Features, c.Features["ALL"]); err != nil {
		out.CompileError = "ORACLE: " + err.Error()
		return
	}
	opts := cel.Options{}
	if c.NewExpr {
		env := environment.NewExpressions
		opts.EnvType = &env
	}
	if err := setDerived(&opts, c.Derived); err != nil {
		out.CompileError = "ORACLE: " + err.Error()
		return
	}
	res := cel.GetCompiler(celFeatures(features)).CompileCELExpression(c.Cel, opts)
	if res.Error != nil {
		out.CompileError = res.Error.Error()
		return
	}
	out.OutputType = res.OutputType.String()
	out.MaxCost = res.MaxCost
	if c.Device == nil {
		return
	}
	dev := cel.Device{Driver: c.Device.Driver, AllowMultipleAllocations: c.Device.AllowMultipleAllocations, Attributes: c.Device.Attributes, Capacity: c.Device.Capacity}
	start := time.Now()
	if c.Derived {
		m := reflect.ValueOf(res).MethodByName("EvaluateDerivedAttribute")
		if !m.IsValid() {
			out.RuntimeError = "ORACLE: derived attributes not supported by this version"
			return
		}
		r := m.Call([]reflect.Value{reflect.ValueOf(context.Background()), reflect.ValueOf(dev)})
		if err, _ := r[2].Interface().(error); err != nil {
			out.RuntimeError = err.Error()
		} else {
			out.Result = r[0].Interface()
		}
		return
	}
	match, details, err := res.DeviceMatches(context.Background(), dev)
	out.Micros = us(time.Since(start))
	if err != nil {
		out.RuntimeError = enhanced(err).Error()
	} else {
		out.Result = match
	}
	if details != nil {
		if cost := details.ActualCost(); cost != nil {
			out.ActualCost = *cost
		}
	}
	return
}

func setDerived(opts *cel.Options, derived bool) error {
	if !derived {
		return nil
	}
	f := reflect.ValueOf(opts).Elem().FieldByName("DerivedAttribute")
	if !f.IsValid() {
		return errors.New("derived attributes not supported by this version")
	}
	f.SetBool(true)
	return nil
}
