package server

import (
	"net/http"

	"github.com/haulier/haulier"
)

// selectionBody names the jobs of a change.
type selectionBody struct {
	Tenant string          `json:"tenant,omitempty" doc:"with ids: their tenant; the token's unless said"`
	IDs    []haulier.ID    `json:"ids,omitempty" doc:"from 1 to 10000 ids"`
	Filter *haulier.Filter `json:"filter,omitempty" doc:"instead of ids; {} selects all"`
	Reason string          `json:"reason,omitempty" doc:"of a cancel: why, for the history"`
}

// changed is the result of a change.
type changed struct {
	Changed int             `json:"changed" doc:"how many jobs were changed"`
	Errors  map[string]told `json:"errors,omitempty" doc:"by id: why it could not be changed"`
}

// selection reads what a change is about, within what the caller may touch.
func (c *call) selection() (haulier.Selection, string, error) {
	var body selectionBody
	if err := c.readJSON(&body); err != nil {
		return haulier.Selection{}, "", err
	}
	sel, err := body.selection(c.who)
	return sel, body.Reason, err
}

func (b *selectionBody) selection(who caller) (sel haulier.Selection, err error) {
	if b.Filter == nil {
		if err := checkIDs(b.IDs); err != nil {
			return sel, err
		}
		sel.IDs = b.IDs
		sel.Tenant, err = who.scope(b.Tenant)
		return sel, err
	}
	if len(b.IDs) > 0 {
		return sel, &haulier.FieldError{Field: "filter", Msg: "is given besides ids: send one of them"}
	}
	asked := b.Filter.Tenant
	if asked == "" {
		asked = b.Tenant
	} else if b.Tenant != "" && b.Tenant != asked {
		return sel, &haulier.FieldError{Field: "filter.tenant", Msg: "is another than tenant: leave one out"}
	}
	f := *b.Filter
	if f.Tenant, err = who.scope(asked); err != nil {
		return sel, err
	}
	return haulier.Selection{Tenant: f.Tenant, Filter: &f}, nil
}

func (c *call) cancelJobs() error {
	sel, reason, err := c.selection()
	if err != nil {
		return err
	}
	return c.replyChanged(c.Queue.Cancel(c.ctx(), sel, c.who.name, reason))
}

func (c *call) retryJobs() error {
	sel, _, err := c.selection()
	if err != nil {
		return err
	}
	return c.replyChanged(c.Queue.Retry(c.ctx(), sel, c.who.name))
}

func (c *call) forceJobs() error {
	sel, _, err := c.selection()
	if err != nil {
		return err
	}
	return c.replyChanged(c.Queue.Force(c.ctx(), sel, c.who.name))
}

func (c *call) deleteJobs() error {
	sel, _, err := c.selection()
	if err != nil {
		return err
	}
	return c.replyChanged(c.Queue.Delete(c.ctx(), sel, c.who.name))
}

func (c *call) replyChanged(ch haulier.Changed, err error) error {
	if err != nil {
		return err
	}
	v := changed{Changed: ch.N}
	for id, err := range ch.Errors {
		if v.Errors == nil {
			v.Errors = map[string]told{}
		}
		v.Errors[id.String()] = *tell(c.telling(err))
	}
	return c.replyJSON(http.StatusOK, v)
}

// one is the selection of the job in the path.
func (c *call) one() (sel haulier.Selection, reason string, err error) {
	id, err := c.pathID()
	if err != nil {
		return sel, "", err
	}
	sel.IDs = []haulier.ID{id}
	if sel.Tenant, err = c.scopeOf(); err != nil || c.op.body == nil {
		return sel, "", err
	}
	var body reasonBody
	err = c.readJSON(&body)
	return sel, body.Reason, err
}

func (c *call) cancelJob() error {
	sel, reason, err := c.one()
	if err != nil {
		return err
	}
	return c.replyOne(c.Queue.Cancel(c.ctx(), sel, c.who.name, reason))
}

func (c *call) retryJob() error {
	sel, _, err := c.one()
	if err != nil {
		return err
	}
	return c.replyOne(c.Queue.Retry(c.ctx(), sel, c.who.name))
}

func (c *call) forceJob() error {
	sel, _, err := c.one()
	if err != nil {
		return err
	}
	return c.replyOne(c.Queue.Force(c.ctx(), sel, c.who.name))
}

func (c *call) deleteJob() error {
	sel, _, err := c.one()
	if err != nil {
		return err
	}
	return c.replyOne(c.Queue.Delete(c.ctx(), sel, c.who.name))
}

// replyOne makes the error of a single job the error of the call.
func (c *call) replyOne(ch haulier.Changed, err error) error {
	if err != nil {
		return err
	}
	for _, err := range ch.Errors {
		return err
	}
	return c.replyNone()
}
