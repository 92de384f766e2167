// Merges NUMA hints with the kubelet's own topology manager. One JSON object a line:
//
//	in  {"nodes":[0,1],"distances":[[10,21],[21,10]],"policy":"restricted","closest":false,
//	     "providers":[{"a.com/x":[{"nodes":[0],"preferred":true}],"a.com/y":null}, null]}
//	out {"nodes":[0],"preferred":true,"admit":true}; nodes is null where nothing is wished
package main

import (
	"bufio"
	"encoding/json"
	"os"

	cadvisor "github.com/google/cadvisor/info/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

type hint struct {
	Nodes     []int `json:"nodes"`
	Preferred bool  `json:"preferred"`
}

type question struct {
	Nodes     []int               `json:"nodes"`
	Distances [][]uint64          `json:"distances"`
	Policy    string              `json:"policy"`
	Closest   bool                `json:"closest"`
	Providers []map[string][]hint `json:"providers"`
}

type answer struct {
	Nodes     []int `json:"nodes"`
	Preferred bool  `json:"preferred"`
	Admit     bool  `json:"admit"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	for in.Scan() {
		var asked question
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			panic(err)
		}
		if err := encoder.Encode(merged(asked)); err != nil {
			panic(err)
		}
	}
}

func merged(asked question) answer {
	var machine []cadvisor.Node
	for index, id := range asked.Nodes {
		node := cadvisor.Node{Id: id}
		if asked.Distances != nil {
			node.Distances = asked.Distances[index]
		}
		machine = append(machine, node)
	}
	options := topologymanager.PolicyOptions{PreferClosestNUMA: asked.Closest}
	info, err := topologymanager.NewNUMAInfo(machine, options)
	if err != nil {
		panic(err)
	}
	var policy topologymanager.Policy
	switch asked.Policy {
	case "best-effort":
		policy = topologymanager.NewBestEffortPolicy(info, options)
	case "restricted":
		policy = topologymanager.NewRestrictedPolicy(info, options)
	case "single-numa-node":
		policy = topologymanager.NewSingleNumaNodePolicy(info, options)
	default:
		panic("unknown policy " + asked.Policy)
	}
	best, admit := policy.Merge(klog.Background(), providers(asked))
	found := answer{Preferred: best.Preferred, Admit: admit}
	if best.NUMANodeAffinity != nil {
		found.Nodes = best.NUMANodeAffinity.GetBits()
	}
	return found
}

func providers(asked question) []map[string][]topologymanager.TopologyHint {
	var all []map[string][]topologymanager.TopologyHint
	for _, resources := range asked.Providers {
		var told map[string][]topologymanager.TopologyHint
		for name, hints := range resources {
			if told == nil {
				told = map[string][]topologymanager.TopologyHint{}
			}
			if hints == nil {
				told[name] = nil
				continue
			}
			told[name] = []topologymanager.TopologyHint{}
			for _, one := range hints {
				made := topologymanager.TopologyHint{Preferred: one.Preferred}
				if one.Nodes != nil {
					mask, err := bitmask.NewBitMask(one.Nodes...)
					if err != nil {
						panic(err)
					}
					made.NUMANodeAffinity = mask
				}
				told[name] = append(told[name], made)
			}
		}
		all = append(all, told)
	}
	return all
}
