package main

import (
	"fmt"
	"reflect"

	"github.com/go-logr/logr"
)

// poolSink captures the "Gathered pool information" log message, which is the
// only way in which pool gathering is visible through the public API.
type poolSink struct{ pools *[]poolInfo }

func (s poolSink) Init(logr.RuntimeInfo)                  {}
func (s poolSink) Enabled(level int) bool                 { return true }
func (s poolSink) Error(err error, msg string, kv ...any) {}
func (s poolSink) WithValues(kv ...any) logr.LogSink      { return s }
func (s poolSink) WithName(name string) logr.LogSink      { return s }
func (s poolSink) Info(level int, msg string, kv ...any) {
	if msg != "Gathered pool information" {
		return
	}
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i] != "pools" {
			continue
		}
		m, ok := kv[i+1].(logr.Marshaler)
		if !ok {
			continue
		}
		info, _ := m.MarshalLog().(map[string]any)
		content := reflect.ValueOf(info["content"])
		if content.Kind() != reflect.Slice {
			continue
		}
		str := func(v reflect.Value) string { return v.Interface().(fmt.Stringer).String() }
		for j := range content.Len() {
			p := content.Index(j).Elem()
			driver, pool := str(p.FieldByName("Driver")), str(p.FieldByName("Pool"))
			pi := poolInfo{
				ID:         driver + "/" + pool,
				Incomplete: p.FieldByName("IsIncomplete").Bool(),
				Invalid:    p.FieldByName("IsInvalid").Bool(),
				Reason:     p.FieldByName("InvalidReason").String(),
			}
			sl := p.FieldByName("DeviceSlicesTargetingNode")
			for k := range sl.Len() {
				devs := sl.Index(k).Elem().FieldByName("Spec").FieldByName("Devices")
				for d := range devs.Len() {
					pi.Devices = append(pi.Devices, str(devs.Index(d).FieldByName("Name")))
				}
			}
			*s.pools = append(*s.pools, pi)
		}
	}
}
