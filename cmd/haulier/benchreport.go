package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// facts are of the machine, without which numbers say little.
type facts struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Memory string `json:"memory,omitempty"`
	System string `json:"system"`
	Go     string `json:"go"`
	Folder string `json:"folder"`
	Disk   string `json:"disk,omitempty"`
}

func machineFacts(dir string) facts {
	f := facts{CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Folder: dir}
	if out, err := exec.Command("uname", "-sr").Output(); err == nil {
		f.System = strings.TrimSpace(string(out)) + " " + runtime.GOARCH
	}
	if out, err := exec.Command("df", "-P", dir).Output(); err == nil {
		if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); len(lines) == 2 {
			f.Disk, _, _ = strings.Cut(lines[1], " ")
		}
	}
	f.CPU = fromFile("/proc/cpuinfo", "model name")
	f.Memory = fromFile("/proc/meminfo", "MemTotal")
	if f.CPU == "" {
		if out, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
			f.CPU = strings.TrimSpace(string(out))
		}
	}
	return f
}

// fromFile is the value of the first line "name : value"; "" when there is none.
func fromFile(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (f facts) words(b *benchFlags) string {
	server := "a server of its own in " + f.Folder + " (" + f.Disk + "), durability " + b.node.Durability
	if !b.ownServer {
		server = "a server that runs already"
	}
	return fmt.Sprintf("%d CPUs (%s), memory %s, %s, %s\n%s", f.CPUs, f.CPU, f.Memory, f.System, f.Go, server)
}

// print writes the measurements as tables.
func (b *benchRun) print() {
	t := newTable("MEASURED", "MIN", "MEDIAN", "MAX", "").numbers(1, 2, 3)
	for _, m := range b.list {
		v := slices.Sorted(slices.Values(m.Values))
		t.add(m.Name, number(v[0]), number(v[len(v)/2]), number(v[len(v)-1]), m.Unit)
	}
	t.write(b.p.out)
	costs := newTable("COST (MEDIAN)", "JOBS", "CLIENT", "SERVER", "WORKER", "SERVER PER 100K", "SERVER MEMORY", "PEAK").numbers(1, 2, 3, 4, 5, 6, 7)
	for _, m := range b.list {
		if len(m.Costs) == 0 {
			continue
		}
		c := slices.SortedFunc(slices.Values(m.Costs), func(x, y cost) int { return int(1000 * (x.ServerCPU - y.ServerCPU)) })[len(m.Costs)/2]
		costs.add(m.Name, c.Jobs, seconds(c.ClientCPU), seconds(c.ServerCPU), seconds(c.WorkerCPU),
			seconds(c.ServerCPU/float64(max(c.Jobs, 1))*100_000), size(c.ServerRSS), size(c.ServerMax))
	}
	if len(costs.rows) > 0 {
		fmt.Fprintln(b.p.out)
		costs.write(b.p.out)
	}
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

// number is a value with as many digits as mean something.
func number(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
