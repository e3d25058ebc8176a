package engine

import (
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// PlainJobs makes jobs of specs as an enqueue does, with ids, defaults and all checks, for a program that adds them to the store by
// itself, as in a transaction of its own database. They must be plain: what needs others or holds keys (Flow), has files or a payload
// over MaxPayload goes through Enqueue. Hooks are not asked.
func PlainJobs(specs []haulier.Spec, by string, now time.Time) ([]haulier.Job, error) {
	if err := checkRequest(&haulier.EnqueueRequest{Jobs: specs}); err != nil {
		return nil, err
	}
	ids := make([]haulier.ID, len(specs))
	haulier.FillIDs(ids, now)
	jobs := make([]haulier.Job, len(specs))
	for i := range specs {
		j := &jobs[i]
		j.Spec = specs[i]
		j.ID, j.CreatedAt, j.Parent = ids[i], now.UTC().Truncate(time.Microsecond), haulier.NilID
		err := complete(&j.Spec, now)
		switch {
		case err != nil:
		case j.Flow != nil || j.Files != nil:
			err = field("flow", "is more than a plain job has: add it with Enqueue")
		case len(j.Task.Blobs()) > 0:
			err = field("task", "names blobs, which a plain job does not: add it with Enqueue")
		case len(j.Payload) > haulier.MaxPayload:
			err = &haulier.FieldError{Field: "payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf(
				"has %d bytes: at most %d, or add it with Enqueue", len(j.Payload), haulier.MaxPayload)}
		}
		if err != nil {
			return nil, inJob(i, err)
		}
		j.Status = j.First(now, by)
	}
	return jobs, nil
}
