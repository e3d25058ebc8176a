package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// Enqueue implements haulier.Producer. A request without a Key is not repeated
// when whether it was carried out is not known; one with a Key is.
func (c *Client) Enqueue(ctx context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	results, err := c.enqueues.ask(ctx, reqs)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return results, nil
}

// enqueueSize is the number of jobs and about the number of bytes of a request.
func enqueueSize(r *haulier.EnqueueRequest) (items, bytes int) {
	for i := range r.Jobs {
		bytes += len(r.Jobs[i].Payload) + 128
		if t := r.Jobs[i].Task.Exec; t != nil {
			for _, a := range t.Argv {
				bytes += len(a)
			}
		}
	}
	return len(r.Jobs), bytes
}

// sendEnqueues carries out joined requests. When the whole fails in a way that
// may have left it carried out, only those with a key go again.
func (c *Client) sendEnqueues(ctx context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, []error) {
	results, errs := make([]haulier.EnqueueResult, len(reqs)), make([]error, len(reqs))
	places := make([]int, len(reqs))
	for i := range places {
		places[i] = i
	}
	pause := pauses{until: c.until()}
	for {
		list := reqs
		if len(places) < len(reqs) {
			list = make([]haulier.EnqueueRequest, len(places))
			for k, i := range places {
				list[k] = reqs[i]
			}
		}
		done, err := c.enqueueOnce(ctx, list)
		if err == nil {
			for k, i := range places {
				results[i], errs[i] = done[k], nil
			}
			return results, errs
		}
		for _, i := range places {
			errs[i] = err
		}
		if !errors.Is(err, haulier.ErrUnavailable) {
			return results, errs
		}
		if !unsent(err) {
			if places = keyed(reqs, places); len(places) == 0 {
				return results, errs
			}
		}
		if !pause.next(ctx, err) {
			return results, errs
		}
	}
}

// keyed are those of the places whose request has a key.
func keyed(reqs []haulier.EnqueueRequest, places []int) []int {
	var out []int
	for _, i := range places {
		if reqs[i].Key != "" {
			out = append(out, i)
		}
	}
	return out
}

func (c *Client) enqueueOnce(ctx context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	size := 0
	for i := range reqs {
		_, n := enqueueSize(&reqs[i])
		size += n
	}
	r := &call{method: http.MethodPost, path: "/v1/jobs", bodyType: wire.ContentType, accept: wire.ContentType,
		body: wire.AppendEnqueueRequests(make([]byte, 0, size), reqs)}
	if c.journal {
		r.query = url.Values{"journal": {"true"}}
	}
	rep, err := c.once(ctx, r)
	if err != nil {
		return nil, err
	}
	results, err := wire.ParseEnqueueResults(rep.body)
	if err != nil {
		return nil, garbled(r, err)
	}
	if len(results) != len(reqs) {
		return nil, garbled(r, fmt.Errorf("%d results for %d requests", len(results), len(reqs)))
	}
	return results, nil
}
