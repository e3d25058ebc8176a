package worker

import (
	"context"
	"maps"
	"net"
	"runtime"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/haulier/haulier"
)

// labels are the given ones and what is known of the machine, in the words of Go: os, arch and host.
func labels(given map[string]string, host string) map[string]string {
	all := map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}
	if host != "" {
		all["host"] = host
	}
	maps.Copy(all, given)
	return all
}

// addresses are those of the machine that others can reach it by.
func addresses() (list []string) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(list) < haulier.MaxHosts {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// load is how busy the machine is, the processors since it was last asked; nil: it can't be known.
func load(ctx context.Context) *haulier.Load {
	busy, err := cpu.PercentWithContext(ctx, 0, false)
	if err != nil || len(busy) != 1 {
		return nil
	}
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil || m.Available > m.Total {
		return nil
	}
	return &haulier.Load{CPU: min(max(busy[0], 0), 100), MemoryUsed: int64(m.Total - m.Available), MemoryTotal: int64(m.Total)}
}
