package server

import (
	"net/http"
	"time"

	"github.com/haulier/haulier"
)

// eventBuffer is how many events may wait for a client to take them, before the
// queue is made to wait and leaves some out.
const eventBuffer = 256

func (s *Server) eventOperations() []operation {
	return []operation{{
		id: "events", method: http.MethodGet, path: "/v1/events", tag: "events", need: read, long: true,
		summary: "Follow changes of jobs",
		doc: "Server-sent events named job, each with a change as JSON. A client that is too slow, or that comes back after its " +
			"connection broke, has missed some: missed says so where it is known. A comment line comes every 15 seconds.",
		query: filterParams, replyTypes: []string{eventsType}, do: (*call).events,
	}}
}

func (c *call) events() error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	ctx, end := c.waiting()
	defer end()
	out, err := c.startStream()
	if err != nil {
		return nil // the client has gone
	}
	events := make(chan haulier.JobEvent, eventBuffer)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Queue.Events(ctx, f, func(e haulier.JobEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	if err = out.pump(events, ended); err != nil {
		end()
		<-ended //nolint:errcheck // it ended since it was told to
	}
	return c.cut(err)
}

// pump writes what comes, as many events at once as there are, until the source
// ends, whose end it puts back, or the client does.
func (s *stream) pump(events <-chan haulier.JobEvent, ended chan error) error {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		var err error
		select {
		case e := <-events:
			err = s.drain(e, events)
		case <-tick.C:
			err = s.comment("still here")
		case err = <-ended:
			ended <- err
			return err
		}
		if err != nil {
			return err
		}
	}
}

func (s *stream) drain(e haulier.JobEvent, events <-chan haulier.JobEvent) error {
	for {
		if err := s.add("", "job", e); err != nil {
			return err
		}
		select {
		case e = <-events:
		default:
			return s.flush()
		}
	}
}
