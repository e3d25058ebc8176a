package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/haulier/haulier"
)

func (s *Server) metricsOperations() []operation {
	tenants := []param{textParam("tenant", "of this tenant; left out: all that the token sees")}
	return []operation{
		{id: "outcomes", method: http.MethodGet, path: "/v1/outcomes", tag: "queues", need: read, summary: "Numbers of attempts by how they ended",
			doc: "The classes are ok (2xx), failed (4xx), retry (1xx) and error (5xx).", query: tenants, reply: outcomeList{}, do: (*call).outcomes},
		{id: "metrics", method: http.MethodGet, path: "/metrics", tag: "health", need: read, summary: "The same, and numbers of jobs and workers, for Prometheus",
			query: tenants, do: (*call).metrics},
	}
}

type outcomeList struct {
	Outcomes []haulier.OutcomeCount `json:"outcomes"`
}

func (c *call) outcomes() error {
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	list, err := c.Queue.Outcomes(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, outcomeList{Outcomes: orNone(list)})
}

var (
	jobsDesc     = prometheus.NewDesc("haulier_jobs", "Jobs by queue, type, kind and state.", []string{"tenant", "queue", "type", "kind", "state"}, nil)
	attemptsDesc = prometheus.NewDesc("haulier_attempts_total", "Attempts that have ended, by outcome.", []string{"tenant", "queue", "type", "outcome"}, nil)
	workersDesc  = prometheus.NewDesc("haulier_workers", "Live sessions of workers.", nil, nil)
	heldDesc     = prometheus.NewDesc("haulier_worker_jobs", "Jobs that workers hold.", nil, nil)
)

// metrics answers with what is known at this moment: nothing is collected in between.
func (c *call) metrics() error {
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	var m measured
	if m.counts, err = c.Queue.Counts(c.ctx(), tenant); err != nil {
		return err
	}
	if m.outcomes, err = c.Queue.Outcomes(c.ctx(), tenant); err != nil {
		return err
	}
	if m.sessions, err = c.Queue.Sessions(c.ctx(), tenant); err != nil {
		return err
	}
	r := prometheus.NewRegistry()
	if err := r.Register(&m); err != nil {
		return err
	}
	promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(c.w, c.r)
	return nil
}

// measured is one look at the queue, as a prometheus.Collector.
type measured struct {
	counts   []haulier.Count
	outcomes []haulier.OutcomeCount
	sessions []haulier.Session
}

func (m *measured) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsDesc, attemptsDesc, workersDesc, heldDesc} {
		ch <- d
	}
}

// withoutLabels adds up the lanes that differ in what they ask of a worker only: there may be too many of them for a series each.
func withoutLabels(counts []haulier.Count) []haulier.Count {
	at := map[haulier.Count]int{}
	var sums []haulier.Count
	for _, x := range counts {
		n := x.N
		x.RunsOn, x.N = "", 0
		i, known := at[x]
		if !known {
			i, at[x] = len(sums), len(sums)
			sums = append(sums, x)
		}
		sums[i].N += n
	}
	return sums
}

func (m *measured) Collect(ch chan<- prometheus.Metric) {
	for _, x := range withoutLabels(m.counts) {
		ch <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(x.N), x.Tenant, x.Queue, x.Type, string(x.Kind), x.State.String())
	}
	for _, x := range m.outcomes {
		ch <- prometheus.MustNewConstMetric(attemptsDesc, prometheus.CounterValue, float64(x.N), x.Tenant, x.Queue, x.Type, string(x.Outcome))
	}
	held := 0
	for i := range m.sessions {
		held += m.sessions[i].Jobs
	}
	ch <- prometheus.MustNewConstMetric(workersDesc, prometheus.GaugeValue, float64(len(m.sessions)))
	ch <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(held))
}
