package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// api answers what a driver asks for: its node, claims c-0, c-1, ... each allocated to one device, and slices.
type api struct {
	driver, node string
	devices      int
	mu           sync.Mutex
	version      int
	slices       map[string]map[string]any
	watchers     map[chan []byte]bool
}

func newAPI(driver, node string, devices int) *api {
	return &api{driver: driver, node: node, devices: devices, slices: map[string]map[string]any{}, watchers: map[chan []byte]bool{}}
}

func serveAPI(sock string, a *api) error {
	os.Remove(sock)
	l, err := net.Listen("unix", sock)
	if err != nil {
		return err
	}
	return http.Serve(l, a)
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last, above := parts[len(parts)-1], ""
	if len(parts) > 1 {
		above = parts[len(parts)-2]
	}
	if last == "status" && len(parts) > 2 {
		last, above = above, parts[len(parts)-3]
	}
	switch {
	case last == "version":
		reply(w, 200, map[string]any{"gitVersion": "v1.36.3", "major": "1", "minor": "36"})
	case above == "nodes":
		reply(w, 200, object("v1", "Node", last, "u1", 1))
	case above == "resourceclaims":
		a.claim(w, last)
	case last == "resourceslices" && r.Method == "GET" && r.URL.Query().Get("watch") != "":
		a.watch(w, r)
	case last == "resourceslices" && r.Method == "GET":
		a.list(w)
	case last == "resourceslices" || above == "resourceslices":
		a.write(w, r, last)
	case r.Method == "GET":
		reply(w, 200, map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
	default:
		reply(w, 404, map[string]any{"kind": "Status", "status": "Failure", "reason": "NotFound", "message": r.URL.Path, "code": 404})
	}
}

func (a *api) claim(w http.ResponseWriter, name string) {
	number, _ := strconv.Atoi(strings.TrimPrefix(name, "c-"))
	c := object("resource.k8s.io/v1", "ResourceClaim", name, "uid-"+strconv.Itoa(number), 7)
	c["metadata"].(map[string]any)["namespace"] = "ns"
	c["spec"] = map[string]any{"devices": map[string]any{"requests": []any{map[string]any{"name": "r", "exactly": map[string]any{"deviceClassName": "widget"}}}}}
	result := map[string]any{"request": "r", "driver": a.driver, "pool": a.node, "device": fmt.Sprintf("mock-%0*d", len(strconv.Itoa(a.devices-1)), number%a.devices)}
	c["status"] = map[string]any{"allocation": map[string]any{"devices": map[string]any{"results": []any{result}}}}
	reply(w, 200, c)
}

func (a *api) list(w http.ResponseWriter) {
	a.mu.Lock()
	items := []any{}
	for _, one := range a.slices {
		items = append(items, one)
	}
	version := strconv.Itoa(a.version)
	a.mu.Unlock()
	reply(w, 200, map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "metadata": map[string]any{"resourceVersion": version}, "items": items})
}

func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan []byte, 10000)
	a.mu.Lock()
	a.watchers[events] = true
	a.mu.Unlock()
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-events:
			w.Write(event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			a.mu.Lock()
			delete(a.watchers, events)
			a.mu.Unlock()
			return
		}
	}
}

func (a *api) write(w http.ResponseWriter, r *http.Request, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	kind, body := "MODIFIED", map[string]any{}
	if r.Method == "DELETE" {
		kind, body = "DELETED", a.slices[name]
		delete(a.slices, name)
	} else {
		json.NewDecoder(r.Body).Decode(&body)
		metadata := body["metadata"].(map[string]any)
		if r.Method == "POST" {
			kind = "ADDED"
			if metadata["name"] == nil {
				metadata["name"] = fmt.Sprint(metadata["generateName"], a.version)
			}
			metadata["uid"] = fmt.Sprint("u-", a.version)
		}
		metadata["resourceVersion"] = strconv.Itoa(a.version)
		a.slices[metadata["name"].(string)] = body
	}
	event, _ := json.Marshal(map[string]any{"type": kind, "object": body})
	for one := range a.watchers {
		one <- append(event, '\n')
	}
	code := 200
	if r.Method == "POST" {
		code = 201
	}
	reply(w, code, body)
}

func object(version, kind, name, uid string, resourceVersion int) map[string]any {
	metadata := map[string]any{"name": name, "uid": uid, "resourceVersion": strconv.Itoa(resourceVersion)}
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": metadata}
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(body)
}
