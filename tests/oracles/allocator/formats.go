package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type deviceRef struct {
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	ShareID string `json:"shareID,omitempty"`
}

type aggCapacity struct {
	deviceRef
	Capacity map[resourceapi.QualifiedName]resource.Quantity `json:"capacity"`
}

type celDevice struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations,omitempty"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity,omitempty"`
}

type inCase struct {
	Name                   string                       `json:"name"`
	Mode                   string                       `json:"mode,omitempty"` // "", "pools"; "cel" is implied by a non-empty cel
	Features               map[string]bool              `json:"features,omitempty"`
	Variant                string                       `json:"variant,omitempty"`
	Node                   *v1.Node                     `json:"node,omitempty"`
	Nodes                  []*v1.Node                   `json:"nodes,omitempty"` // one allocator, Allocate for each
	Claims                 []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	Classes                []*resourceapi.DeviceClass   `json:"classes,omitempty"`
	Slices                 []*resourceapi.ResourceSlice `json:"slices,omitempty"`
	AllocatedDevices       []deviceRef                  `json:"allocatedDevices,omitempty"`
	AllocatedSharedDevices []deviceRef                  `json:"allocatedSharedDevices,omitempty"`
	AggregatedCapacity     []aggCapacity                `json:"aggregatedCapacity,omitempty"`
	TimeoutMillis          int64                        `json:"timeoutMillis,omitempty"`
	Repeat                 int                          `json:"repeat,omitempty"` // repeat the measurement, report the median
	KeepShareIDs           bool                         `json:"keepShareIDs,omitempty"`

	Cel     string     `json:"cel,omitempty"`
	Derived bool       `json:"derived,omitempty"` // compile as derived attribute expression
	NewExpr bool       `json:"newExpr,omitempty"` // compile as a new expression (API validation) instead of a stored one (scheduler)
	Device  *celDevice `json:"device,omitempty"`

	// carried along, ignored
	Expect   json.RawMessage `json:"expect,omitempty"`
	Comment  string          `json:"comment,omitempty"`
	Tags     []string        `json:"tags,omitempty"`
	Required []string        `json:"requiredFeatures,omitempty"`
}

type poolInfo struct {
	ID         string   `json:"id"`
	Incomplete bool     `json:"isIncomplete"`
	Invalid    bool     `json:"isInvalid"`
	Reason     string   `json:"invalidReason,omitempty"`
	Devices    []string `json:"devices,omitempty"` // DeviceSlicesTargetingNode, in allocation order
}

type nodeOut struct {
	Node    string                         `json:"node"`
	Results []resourceapi.AllocationResult `json:"results"`
	Error   string                         `json:"error"`
	Micros  float64                        `json:"micros"`
}

type outCase struct {
	Name        string                         `json:"name"`
	Results     []resourceapi.AllocationResult `json:"results"`
	Error       string                         `json:"error"`
	ErrorOnNode bool                           `json:"errorOnNode,omitempty"` // errors.Is(err, ErrFailedAllocationOnNode)
	Micros      float64                        `json:"micros"`                // Allocate only
	NewMicros   float64                        `json:"newMicros,omitempty"`   // NewAllocator only
	Steps       int64                          `json:"allocateOneCalls,omitempty"`
	Variant     string                         `json:"variant,omitempty"` // which implementation really ran
	TimedOut    bool                           `json:"timedOut,omitempty"`
	Pools       []poolInfo                     `json:"pools,omitempty"`
	Nodes       []nodeOut                      `json:"nodes,omitempty"`
}

type celOut struct {
	Name         string  `json:"name"`
	CompileError string  `json:"compileError"`
	OutputType   string  `json:"outputType,omitempty"`
	MaxCost      uint64  `json:"maxCost,omitempty"`
	Result       any     `json:"result"`
	RuntimeError string  `json:"runtimeError"`
	ActualCost   uint64  `json:"actualCost,omitempty"`
	Micros       float64 `json:"micros,omitempty"`
}
