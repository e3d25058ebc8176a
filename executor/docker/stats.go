package docker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/haulier/haulier"
)

// sampleEvery is how often what a container uses is asked for. What runs for less is not seen whole.
const sampleEvery = 2 * time.Second

// sample asks until ctx ends what the container uses.
func (a *attempt) sample(ctx context.Context) {
	for {
		a.sampleOnce(ctx)
		if !pause(ctx, sampleEvery) {
			return
		}
	}
}

func (a *attempt) sampleOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	res, err := a.x.cli.ContainerStats(ctx, a.id, client.ContainerStatsOptions{})
	if err != nil {
		return // it has ended, or others say what is wrong
	}
	defer res.Body.Close()
	var s container.StatsResponse
	if json.NewDecoder(res.Body).Decode(&s) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	count(&a.account, &s)
}

// count takes a sample into the account. Counters only grow; those of a container that has ended are zero.
func count(to *haulier.Account, s *container.StatsResponse) {
	var read, written, received, sent uint64
	for _, e := range s.BlkioStats.IoServiceBytesRecursive {
		switch e.Op {
		case "Read", "read":
			read += e.Value
		case "Write", "write":
			written += e.Value
		}
	}
	for _, n := range s.Networks {
		received += n.RxBytes
		sent += n.TxBytes
	}
	to.CPU = max(to.CPU, haulier.Duration(s.CPUStats.CPUUsage.TotalUsage))
	to.MaxMemory = max(to.MaxMemory, int64(s.MemoryStats.Usage), int64(s.MemoryStats.MaxUsage))
	to.Read, to.Written = max(to.Read, int64(read)), max(to.Written, int64(written))
	to.Received, to.Sent = max(to.Received, int64(received)), max(to.Sent, int64(sent))
}
