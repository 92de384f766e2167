package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dp "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

const warmUp = 200

type times map[string]float64

type side struct {
	conn *grpc.ClientConn
	dra  dra.DRAPluginClient
}

// pair drives both sides in turn, so that whatever else the machine does meets both.
func pair(ours, peer, test string, calls, from int) error {
	var sides [2]*side
	for i, sock := range []string{ours, peer} {
		conn, err := grpc.NewClient("unix://"+sock, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		sides[i] = &side{conn, dra.NewDRAPluginClient(conn)}
	}
	tests := map[string]func([2]*side, int, int) ([2]times, error){"noop": noop, "full": full, "concurrent": concurrent, "list": list}
	run, known := tests[test]
	if !known {
		return fmt.Errorf("no test %q", test)
	}
	found, err := run(sides, calls, from)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]times{"ours": found[0], "peer": found[1]})
}

func ref(i int) *dra.Claim {
	return &dra.Claim{Namespace: "ns", Name: fmt.Sprint("c-", i), Uid: fmt.Sprint("uid-", i)}
}

func (s *side) prepare(i int) (time.Duration, error) {
	t := time.Now()
	r, err := s.dra.NodePrepareResources(context.Background(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{ref(i)}}, grpc.WaitForReady(true))
	took := time.Since(t)
	if err != nil {
		return took, err
	}
	one := r.Claims[ref(i).Uid]
	if one == nil || one.Error != "" || len(one.Devices) != 1 {
		return took, fmt.Errorf("claim %d: %v", i, one)
	}
	return took, nil
}

func (s *side) unprepare(i int) error {
	r, err := s.dra.NodeUnprepareResources(context.Background(), &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{ref(i)}})
	if err != nil {
		return err
	}
	if text := r.Claims[ref(i).Uid].GetError(); text != "" {
		return errors.New(text)
	}
	return nil
}

// noop prepares what is prepared already.
func noop(sides [2]*side, calls, from int) ([2]times, error) {
	return alternate(sides, calls, func(s *side, _ int) (time.Duration, error) { return s.prepare(from) })
}

// full prepares a claim that nobody knows, and takes it back outside the measurement.
func full(sides [2]*side, calls, from int) ([2]times, error) {
	return alternate(sides, calls, func(s *side, i int) (time.Duration, error) {
		took, err := s.prepare(from + i)
		if err == nil {
			err = s.unprepare(from + i)
		}
		return took, err
	})
}

func alternate(sides [2]*side, calls int, call func(*side, int) (time.Duration, error)) ([2]times, error) {
	var all [2][]time.Duration
	for i := range min(warmUp, calls) + calls {
		for j := range sides {
			k := (i + j) % 2
			took, err := call(sides[k], i)
			if err != nil {
				return [2]times{}, fmt.Errorf("side %d: %w", k, err)
			}
			if i >= min(warmUp, calls) {
				all[k] = append(all[k], took)
			}
		}
	}
	return [2]times{percentiles(all[0]), percentiles(all[1])}, nil
}

// concurrent prepares so many new claims at once, each in a call of its own.
func concurrent(sides [2]*side, calls, from int) ([2]times, error) {
	var found [2]times
	for k, s := range sides {
		if _, err := s.prepare(from); err != nil {
			return found, err
		}
		var wait sync.WaitGroup
		all, faults := make([]time.Duration, calls), make([]error, calls)
		t := time.Now()
		for i := range calls {
			wait.Add(1)
			go func() {
				defer wait.Done()
				all[i], faults[i] = s.prepare(from + 1 + i)
			}()
		}
		wait.Wait()
		total := time.Since(t)
		if err := errors.Join(faults...); err != nil {
			return found, fmt.Errorf("side %d: %w", k, err)
		}
		found[k] = percentiles(all)
		found[k]["total_us"] = float64(total.Microseconds())
	}
	return found, nil
}

// list reads the first list of devices, so many times.
func list(sides [2]*side, calls, _ int) ([2]times, error) {
	var counts [2]int
	found, err := alternate(sides, calls, func(s *side, _ int) (time.Duration, error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		t := time.Now()
		st, err := dp.NewDevicePluginClient(s.conn).ListAndWatch(ctx, &dp.Empty{}, grpc.WaitForReady(true))
		if err != nil {
			return 0, err
		}
		m, err := st.Recv()
		if err != nil {
			return 0, err
		}
		for k := range sides {
			if sides[k] == s {
				counts[k] = len(m.Devices)
			}
		}
		return time.Since(t), nil
	})
	for k := range sides {
		if err == nil {
			found[k]["devices"] = float64(counts[k])
		}
	}
	return found, err
}

func percentiles(d []time.Duration) times {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	at := func(q float64) float64 { return float64(d[int(q*float64(len(d)-1))].Nanoseconds()) / 1000 }
	return times{"p50_us": at(.5), "p90_us": at(.9), "p99_us": at(.99), "max_us": at(1)}
}
