// Asks upstream's scheduler where one pod goes. One case per line on stdin: {"name", "objects": [...], "pod": {...}};
// one answer per line on stdout: {"name", "node", "message", "error", "devices": [...], "mapped": [...]}; "mapped" is what
// the pod's status says of the node's own resources that its devices take.
// The whole scheduler runs on a client in memory, with default plugins, for one attempt. The first argument, if any,
// sets feature gates ("A=true,B=false"); the rest are as by default.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

type input struct {
	Name    string            `json:"name"`
	Objects []json.RawMessage `json:"objects"`
	Pod     json.RawMessage   `json:"pod"`
}

type answer struct {
	Name    string   `json:"name"`
	Node    string   `json:"node,omitempty"`
	Message string   `json:"message,omitempty"`
	Error   string   `json:"error,omitempty"`
	Held    bool     `json:"held,omitempty"`
	Devices []string `json:"devices,omitempty"`

	Mapped []v1.NodeAllocatableResourceClaimStatus `json:"mapped,omitempty"`
}

func decode(raw []byte) (runtime.Object, error) {
	object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	return object, err
}

func attempt(in input) (out answer) {
	out.Name = in.Name
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var objects []runtime.Object
	for _, raw := range in.Objects {
		object, err := decode(raw)
		if err != nil {
			out.Error = "oracle: " + err.Error()
			return out
		}
		objects = append(objects, object)
	}
	object, err := decode(in.Pod)
	if err != nil {
		out.Error = "oracle: " + err.Error()
		return out
	}
	pod := object.(*v1.Pod)
	client := fake.NewSimpleClientset(append(objects, pod)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	recorder := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	sched, err := scheduler.New(ctx, client, factory, nil, recorder)
	if err != nil {
		out.Error = "oracle: " + err.Error()
		return out
	}
	failed := make(chan *fwk.Status, 1)
	sched.FailureHandler = func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, status *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		failed <- status
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		out.Error = "oracle: " + err.Error()
		return out
	}
	sched.SchedulingQueue.Run(klog.Background())
	defer sched.SchedulingQueue.Close()
	done := make(chan struct{})
	go func() { sched.ScheduleOne(ctx); close(done) }()
	deadline := time.After(3 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case status := <-failed:
			if status.IsRejected() {
				out.Message = status.Message()
			} else {
				out.Error = status.Message()
			}
			return out
		case <-deadline:
			out.Held = true
			return out
		case <-tick.C:
			for _, action := range client.Actions() {
				if action.Matches("create", "pods/binding") {
					binding := action.(interface{ GetObject() runtime.Object }).GetObject().(*v1.Binding)
					out.Node = binding.Target.Name
					out.Devices = devices(ctx, client, pod)
					if bound, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err == nil {
						out.Mapped = bound.Status.NodeAllocatableResourceClaimStatuses
					}
					return out
				}
			}
		}
	}
}

func devices(ctx context.Context, client *fake.Clientset, pod *v1.Pod) []string {
	claims, err := client.ResourceV1().ResourceClaims(pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var found []string
	for _, claim := range claims.Items {
		if !reserved(&claim, pod) {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			found = append(found, fmt.Sprintf("%s/%s/%s/%s", result.Request, result.Driver, result.Pool, result.Device))
		}
	}
	sort.Strings(found)
	return found
}

func reserved(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	for _, user := range claim.Status.ReservedFor {
		if user.UID == pod.UID {
			return true
		}
	}
	return false
}

func main() {
	klog.SetOutput(os.Stderr)
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	if len(os.Args) > 1 {
		if err := utilfeature.DefaultMutableFeatureGate.Set(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), 1<<28)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for scanner.Scan() {
		var in input
		if err := json.Unmarshal(scanner.Bytes(), &in); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if err := encoder.Encode(attempt(in)); err != nil {
			os.Exit(2)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
