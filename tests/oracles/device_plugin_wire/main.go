// The device plugin API as a kubelet of 1.31 reads and writes it: JSON lines {message, bytes} in, what it reads and writes out.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type message interface {
	Unmarshal([]byte) error
	Marshal() ([]byte, error)
}

var messages = map[string]func() message{
	"RegisterRequest":             func() message { return &api.RegisterRequest{} },
	"DevicePluginOptions":         func() message { return &api.DevicePluginOptions{} },
	"ListAndWatchResponse":        func() message { return &api.ListAndWatchResponse{} },
	"PreferredAllocationRequest":  func() message { return &api.PreferredAllocationRequest{} },
	"PreferredAllocationResponse": func() message { return &api.PreferredAllocationResponse{} },
	"AllocateRequest":             func() message { return &api.AllocateRequest{} },
	"AllocateResponse":            func() message { return &api.AllocateResponse{} },
	"PreStartContainerRequest":    func() message { return &api.PreStartContainerRequest{} },
}

func main() {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var asked struct {
			Message string
			Bytes   []byte
		}
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			panic(err)
		}
		read := messages[asked.Message]()
		if err := read.Unmarshal(asked.Bytes); err != nil {
			out.Encode(map[string]any{"error": err.Error()})
			continue
		}
		written, err := read.Marshal()
		if err != nil {
			panic(err)
		}
		out.Encode(map[string]any{"read": read, "bytes": written})
	}
}
