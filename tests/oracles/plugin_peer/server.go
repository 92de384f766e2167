package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	dp "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

// plugin answers as a driver does: what is prepared from memory; what is not after the claim is read and all is on disk.
type plugin struct {
	dp.UnimplementedDevicePluginServer
	dra.UnimplementedDRAPluginServer
	devices  int
	dir      string
	driver   string
	http     *http.Client
	mu       sync.Mutex
	prepared map[string]*prepared
}

type prepared struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Devices   []held `json:"devices"`
}

type held struct {
	Device   string   `json:"device"`
	Pool     string   `json:"pool"`
	Requests []string `json:"requests"`
	CDI      []string `json:"cdiIds,omitempty"`
}

type claim struct {
	Metadata struct{ UID string } `json:"metadata"`
	Status   struct {
		Allocation struct {
			Devices struct {
				Results []struct{ Request, Driver, Pool, Device string }
			}
		}
	}
}

func newPlugin(devices int, api, dir, driver string) *plugin {
	p := &plugin{devices: devices, dir: dir, driver: driver, prepared: map[string]*prepared{}}
	if api != "" {
		dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", api) }
		p.http = &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}}
	}
	return p
}

func serve(sock string, p *plugin) error {
	os.Remove(sock)
	l, err := net.Listen("unix", sock)
	if err != nil {
		return err
	}
	g := grpc.NewServer()
	dp.RegisterDevicePluginServer(g, p)
	dra.RegisterDRAPluginServer(g, p)
	return g.Serve(l)
}

func (p *plugin) ListAndWatch(_ *dp.Empty, st dp.DevicePlugin_ListAndWatchServer) error {
	r := &dp.ListAndWatchResponse{}
	for i := 0; i < p.devices; i++ {
		r.Devices = append(r.Devices, &dp.Device{ID: fmt.Sprintf("mock-%05d", i), Health: "Healthy",
			Topology: &dp.TopologyInfo{Nodes: []*dp.NUMANode{{ID: 0}}}})
	}
	if err := st.Send(r); err != nil {
		return err
	}
	<-st.Context().Done()
	return nil
}

func (p *plugin) NodePrepareResources(_ context.Context, r *dra.NodePrepareResourcesRequest) (*dra.NodePrepareResourcesResponse, error) {
	out := &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range r.Claims {
		out.Claims[c.Uid] = p.answer(c)
	}
	return out, nil
}

func (p *plugin) NodeUnprepareResources(_ context.Context, r *dra.NodeUnprepareResourcesRequest) (*dra.NodeUnprepareResourcesResponse, error) {
	out := &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range r.Claims {
		answer := &dra.NodeUnprepareResourceResponse{}
		os.Remove(p.spec(c.Uid))
		delete(p.prepared, c.Uid)
		if err := p.save(); err != nil {
			answer.Error = err.Error()
		}
		out.Claims[c.Uid] = answer
	}
	return out, nil
}

func (p *plugin) answer(c *dra.Claim) *dra.NodePrepareResourceResponse {
	known := p.prepared[c.Uid]
	if known == nil {
		var err error
		if known, err = p.prepare(c); err != nil {
			return &dra.NodePrepareResourceResponse{Error: err.Error()}
		}
	}
	answer := &dra.NodePrepareResourceResponse{}
	for _, d := range known.Devices {
		answer.Devices = append(answer.Devices, &dra.Device{RequestNames: d.Requests, PoolName: d.Pool, DeviceName: d.Device, CdiDeviceIds: d.CDI})
	}
	return answer
}

// prepare reads the claim and makes the same writes as ours: checkpoint, CDI spec, checkpoint, each synced.
func (p *plugin) prepare(c *dra.Claim) (*prepared, error) {
	found, err := p.read(c)
	if err != nil {
		return nil, err
	}
	one := &prepared{UID: c.Uid, Namespace: c.Namespace, Name: c.Name, State: "PrepareStarted"}
	for _, result := range found.Status.Allocation.Devices.Results {
		if result.Driver == p.driver {
			one.Devices = append(one.Devices, held{result.Device, result.Pool, []string{result.Request}, nil})
		}
	}
	if found.Metadata.UID != c.Uid || len(one.Devices) == 0 {
		return nil, fmt.Errorf("claim %s is another one, or has no device of %s", c.Name, p.driver)
	}
	p.prepared[c.Uid] = one
	if err := p.save(); err != nil {
		return nil, err
	}
	text := "---\ncdiVersion: \"0.5.0\"\nkind: \"example.com/widget\"\ndevices:\n"
	for i := range one.Devices {
		d := &one.Devices[i]
		name := "claim-" + c.Uid + "-" + d.Device
		text += fmt.Sprintf("- name: %q\n  containerEdits:\n    env:\n    - %q\n", name, "MOCK="+d.Device)
		d.CDI = []string{"example.com/widget=" + name}
	}
	if err := replace(p.spec(c.Uid), []byte(text)); err != nil {
		return nil, err
	}
	one.State = "PrepareCompleted"
	return one, p.save()
}

func (p *plugin) read(c *dra.Claim) (*claim, error) {
	r, err := p.http.Get("http://api/apis/resource.k8s.io/v1/namespaces/" + c.Namespace + "/resourceclaims/" + c.Name)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	found := &claim{}
	return found, json.Unmarshal(data, found)
}

func (p *plugin) spec(uid string) string {
	return filepath.Join(p.dir, "example.com-widget_"+uid+".yaml")
}

func (p *plugin) save() error {
	body, err := json.Marshal(map[string]any{"bootId": "b", "claims": p.prepared})
	if err != nil {
		return err
	}
	head := fmt.Sprintf("{\"format\":\"peer\",\"sha256\":\"%x\"}\n", sha256.Sum256(body))
	return replace(filepath.Join(p.dir, "checkpoint.json"), append([]byte(head), append(body, '\n')...))
}

// replace writes a file whole or not at all: beside it, synced, renamed, and the directory synced.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp")
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
