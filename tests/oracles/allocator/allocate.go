package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }
func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range l {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}, name)
}

func fixShareIDs(rs []resourceapi.AllocationResult) {
	fixed := types.UID("share")
	for i := range rs {
		for j := range rs[i].Devices.Results {
			if rs[i].Devices.Results[j].ShareID != nil {
				rs[i].Devices.Results[j].ShareID = &fixed
			}
		}
	}
}

func median(v []float64) float64 {
	s := append([]float64(nil), v...)
	sort.Float64s(s)
	return s[len(s)/2]
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func runCase(c *inCase) (out outCase) {
	out.Name = c.Name
	defer func() {
		if r := recover(); r != nil {
			out.Error = fmt.Sprintf("PANIC: %v", r)
			out.Results = nil
		}
	}()
	var features structured.Features
	if err := setFeatures(&features, c.Features, c.Features["ALL"]); err != nil {
		out.Error = "ORACLE: " + err.Error()
		return
	}
	chooseVariant(c.Variant)
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, d := range c.AllocatedDevices {
		state.AllocatedDevices.Insert(structured.MakeDeviceID(d.Driver, d.Pool, d.Device))
	}
	for _, d := range c.AllocatedSharedDevices {
		uid := types.UID(d.ShareID)
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(structured.MakeDeviceID(d.Driver, d.Pool, d.Device), &uid))
	}
	for _, d := range c.AggregatedCapacity {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(structured.MakeDeviceID(d.Driver, d.Pool, d.Device), d.Capacity))
	}
	ctx := klog.NewContext(context.Background(), logr.Discard())
	var pools []poolInfo
	if c.Mode == "pools" {
		ctx = klog.NewContext(context.Background(), logr.New(poolSink{&pools}))
	}
	if c.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(c.TimeoutMillis)*time.Millisecond, errors.New("oracle timeout"))
		defer cancel()
	}
	celCache := cel.NewCache(100, celFeatures(features))
	repeat := max(c.Repeat, 1)
	var newT, allocT []float64
	for range repeat {
		start := time.Now()
		alloc, err := structured.NewAllocator(ctx, features, state, classLister(c.Classes), c.Slices, celCache)
		newT = append(newT, us(time.Since(start)))
		if err != nil {
			out.Error = err.Error()
			return
		}
		av := reflect.ValueOf(alloc)
		if m := av.MethodByName("Channel"); m.IsValid() {
			out.Variant = m.Call(nil)[0].String()
		}
		if len(c.Nodes) > 0 {
			start = time.Now()
			nodes := make([]nodeOut, 0, len(c.Nodes))
			for _, n := range c.Nodes {
				s := time.Now()
				rs, err := alloc.Allocate(ctx, n, c.Claims)
				no := nodeOut{Node: n.Name, Results: rs, Micros: us(time.Since(s))}
				if err != nil {
					no.Error = err.Error()
				}
				nodes = append(nodes, no)
			}
			allocT = append(allocT, us(time.Since(start)))
			out.Nodes = nodes
		} else {
			start = time.Now()
			rs, err := alloc.Allocate(ctx, c.Node, c.Claims)
			allocT = append(allocT, us(time.Since(start)))
			out.Results = rs
			if err != nil {
				out.Error = err.Error()
				out.ErrorOnNode = failedOnNode(err)
				out.TimedOut = ctx.Err() != nil
			}
		}
		if m := av.MethodByName("GetStats"); m.IsValid() {
			// Before 0.36 stable counts nothing.
			if stats := reflect.Indirect(m.Call(nil)[0]); stats.IsValid() {
				out.Steps = stats.FieldByName("NumAllocateOneInvocations").Int()
			}
		}
	}
	out.Micros, out.NewMicros = median(allocT), median(newT)
	if !c.KeepShareIDs {
		fixShareIDs(out.Results)
		for i := range out.Nodes {
			fixShareIDs(out.Nodes[i].Results)
		}
	}
	out.Pools = pools
	return
}
