package haulier

import (
	"strings"
	"time"
)

// Session is a lease that a worker holds and renews; the jobs it claims belong to it.
type Session struct {
	ID          ID                `json:"id"`
	Worker      string            `json:"worker"`              // the worker's name, as people know it
	Tenants     []string          `json:"tenants"`             // whose jobs it runs; "*" stands for all
	Queues      map[string]int    `json:"queues"`              // weight (1 to 100) by queue; "*" stands for all others
	Kinds       []Kind            `json:"kinds"`               // kinds of task it can run
	Types       []string          `json:"types,omitempty"`     // types it runs; empty: all. Go functions are always named
	Languages   []string          `json:"languages,omitempty"` // of handlers that it can run
	Concurrency int               `json:"concurrency"`         // jobs it runs at once
	Lease       Duration          `json:"lease"`               // how long it lives without being renewed
	Host        string            `json:"host,omitempty"`      // of the machine
	PID         int               `json:"pid,omitempty"`       // of the worker's process
	Version     string            `json:"version,omitempty"`   // of the worker's program
	Addresses   []string          `json:"addresses,omitempty"` // of the machine, without those that lead nowhere else
	Load        *Load             `json:"load,omitempty"`      // of the machine, with the last renewal that this server heard
	Labels      map[string]string `json:"labels,omitempty"`    // what jobs may ask for (Spec.RunsOn); os, arch and host unless the worker says otherwise
	StartedAt   time.Time         `json:"started_at"`          // when it was opened
	SeenAt      time.Time         `json:"seen_at,omitzero"`    // last renewal that this server heard
	Connected   bool              `json:"connected,omitempty"` // a renewal waits at this server right now
	Draining    bool              `json:"draining,omitempty"`  // takes no more jobs
	Jobs        int               `json:"jobs"`                // that it holds
	Holding     []ID              `json:"holding,omitempty"`   // the first MaxHolding of these; only Operator.Sessions fills it in
}

// Load is how busy a machine is.
type Load struct {
	CPU         float64 `json:"cpu"`          // busy share of all processors since the last time, in percent
	MemoryUsed  int64   `json:"memory_used"`  // bytes that nothing else can have
	MemoryTotal int64   `json:"memory_total"` // bytes
}

// Bounds of a session.
const (
	MinLease       = time.Second
	MaxLease       = time.Hour
	MaxConcurrency = 100_000
	MaxClaim       = 1000 // jobs in one claim
	MaxReports     = 2000 // reports in one request
	MaxHolding     = 100  // jobs named in Session.Holding
	MaxHosts       = 32   // addresses of a session's machine
)

// Serves reports whether the session may run jobs of the tenant.
func (s *Session) Serves(tenant string) bool {
	return contains(s.Tenants, tenant) || contains(s.Tenants, "*")
}

// Runs reports whether the session may run jobs of the lane, and with which
// weight its queue is to be served.
func (s *Session) Runs(l Lane) (weight int, ok bool) {
	if !s.Serves(l.Tenant) || !contains(s.Kinds, l.Kind) {
		return 0, false
	}
	if !contains(s.Types, l.Type) && (len(s.Types) > 0 || l.Kind == KindGo) {
		return 0, false
	}
	if _, lacks := s.Lacks(l); lacks {
		return 0, false
	}
	if weight, ok = s.Queues[l.Queue]; !ok {
		weight, ok = s.Queues["*"]
	}
	return weight, ok
}

// Lacks returns a label, as key=value, that the lane's jobs ask for and the session does not have.
func (s *Session) Lacks(l Lane) (label string, lacks bool) {
	if l.RunsOn == "" {
		return "", false
	}
	for pair := range strings.SplitSeq(l.RunsOn, ",") {
		k, v, _ := strings.Cut(pair, "=")
		if got, ok := s.Labels[k]; !ok || got != v {
			return pair, true
		}
	}
	return "", false
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// QueueStatus is a queue as people see it.
type QueueStatus struct {
	Tenant   string           `json:"tenant"`
	Queue    string           `json:"queue"`
	Paused   bool             `json:"paused"`
	PausedAt time.Time        `json:"paused_at,omitzero"`
	PausedBy string           `json:"paused_by,omitempty"`
	Weight   int              `json:"weight"` // share among the tenant's queues of equal priority; 1 unless set
	Counts   map[string]int64 `json:"counts"` // by state name
	Oldest   time.Time        `json:"oldest_pending,omitzero"`
}
