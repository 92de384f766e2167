// Upstream's helper for DRA drivers, told in JSON lines what a driver answers: which files does it write, which names has it?
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatav1alpha1 "k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
)

type device struct {
	Requests    []string                               `json:"requests"`
	Pool        string                                 `json:"pool"`
	Device      string                                 `json:"device"`
	CDI         []string                               `json:"cdi"`
	Attributes  map[string]resourceapi.DeviceAttribute `json:"attributes"`
	NetworkData *resourceapi.NetworkDeviceData         `json:"networkData"`
}

type line struct {
	Claim   *resourceapi.ResourceClaim `json:"claim"`
	Devices []device                   `json:"devices"`
}

type driver struct{ devices []device }

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	result := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var devices []kubeletplugin.Device
		for _, one := range d.devices {
			devices = append(devices, kubeletplugin.Device{
				Requests: one.Requests, PoolName: one.Pool, DeviceName: one.Device, CDIDeviceIDs: one.CDI,
				Metadata: &kubeletplugin.DeviceMetadata{Attributes: one.Attributes, NetworkData: one.NetworkData},
			})
		}
		result[claim.UID] = kubeletplugin.PrepareResult{Devices: devices}
	}
	return result, nil
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	result := map[types.UID]error{}
	for _, claim := range claims {
		result[claim.UID] = nil
	}
	return result, nil
}

func (d *driver) HandleError(context.Context, error, string) {}

func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func files(root string) map[string]string {
	found := map[string]string{}
	filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		content := ""
		if entry.Type().IsRegular() {
			data, _ := os.ReadFile(path)
			content = string(data)
		}
		if !entry.IsDir() {
			name, _ := filepath.Rel(root, path)
			found[name] = content
		}
		return nil
	})
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	dir := flag.String("dir", "", "where the kubelet's directory and the CDI directory are")
	name := flag.String("driver", "driver.example.com", "")
	uid := flag.String("pod-uid", "", "")
	flag.Parse()
	ctx, out := context.Background(), json.NewEncoder(os.Stdout)
	plugins := filepath.Join(*dir, "plugins", *name)
	registry := filepath.Join(*dir, "plugins_registry")
	for _, path := range []string{plugins, registry, filepath.Join(*dir, "cdi")} {
		must(os.MkdirAll(path, 0o755))
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var asked line
		must(json.Unmarshal(in.Bytes(), &asked))
		plugin := &driver{asked.Devices}
		helper, err := kubeletplugin.Start(ctx, plugin,
			kubeletplugin.DriverName(*name), kubeletplugin.NodeName("n1"),
			kubeletplugin.KubeClient(fake.NewClientset(asked.Claim)),
			kubeletplugin.RegistrarDirectoryPath(registry), kubeletplugin.PluginDataDirectoryPath(plugins),
			kubeletplugin.RollingUpdate(types.UID(*uid)), kubeletplugin.CDIDirectory(filepath.Join(*dir, "cdi")),
			kubeletplugin.EnableDeviceMetadata(true, []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion, metadatav1alpha1.SchemeGroupVersion}),
		)
		must(err)
		socket := "dra.sock"
		if *uid != "" {
			socket = "dra-" + *uid + ".sock"
		}
		connection, err := grpc.NewClient("unix://"+filepath.Join(plugins, socket), grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(err)
		client := drav1.NewDRAPluginClient(connection)
		claims := []*drav1.Claim{{Namespace: asked.Claim.Namespace, Name: asked.Claim.Name, Uid: string(asked.Claim.UID)}}
		prepared, err := client.NodePrepareResources(ctx, &drav1.NodePrepareResourcesRequest{Claims: claims})
		must(err)
		after := files(*dir)
		_, err = client.NodeUnprepareResources(ctx, &drav1.NodeUnprepareResourcesRequest{Claims: claims})
		must(err)
		must(out.Encode(map[string]any{"answer": prepared, "prepared": after, "unprepared": files(*dir)}))
		connection.Close()
		helper.Stop()
	}
}
