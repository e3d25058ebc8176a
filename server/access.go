package server

import (
	"fmt"
	"strings"

	"github.com/haulier/haulier"
)

// anyTenant stands for all tenants in tokens and in queries.
const anyTenant = "*"

// permission is what an operation needs.
type permission uint8

const (
	public  permission = iota // no token at all
	read                      // look at jobs, queues, workers, logs, events
	enqueue                   // add jobs
	change                    // cancel and retry jobs
	work                      // hold sessions, claim, report
	keep                      // put blobs, make filesets
	operate                   // everything else: delete, pause, weigh, tokens
)

// allowed is the one table of roles. The admin may do all.
var allowed = map[haulier.Role][]permission{
	haulier.RoleProducer: {read, enqueue, change, keep},
	haulier.RoleWorker:   {read, work, keep},
	haulier.RoleViewer:   {read},
}

var permissionNames = [...]string{
	public: "ask this", read: "read", enqueue: "enqueue", change: "cancel and retry", work: "hold sessions and run jobs", keep: "keep files",
	operate: "do this: it takes an admin",
}

// caller is who asks: a token, or the admin of everything where there are none.
type caller struct {
	name   string
	role   haulier.Role
	tenant string
}

var everybody = caller{role: haulier.RoleAdmin, tenant: anyTenant}

// authorize finds out who asks and whether their role allows the operation.
func (c *call) authorize() error {
	switch {
	case c.op.need == public:
		return nil
	case c.Auth == nil:
		c.who = everybody
		return nil
	}
	secret, err := bearer(c.r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	t, err := c.Auth.Authenticate(c.ctx(), secret)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	c.who = caller{name: t.Name, role: t.Role, tenant: t.Tenant}
	return c.who.may(c.op.need)
}

func bearer(header string) (string, error) {
	if header == "" {
		return "", fmt.Errorf("%w: send a token in the header Authorization: Bearer …; `haulier token create` makes one", haulier.ErrUnauthenticated)
	}
	scheme, secret, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(secret) == "" {
		return "", fmt.Errorf("%w: the header Authorization is not of the form: Bearer TOKEN", haulier.ErrUnauthenticated)
	}
	return strings.TrimSpace(secret), nil
}

func (c caller) may(p permission) error {
	if c.role == haulier.RoleAdmin {
		return nil
	}
	for _, a := range allowed[c.role] {
		if a == p {
			return nil
		}
	}
	return fmt.Errorf("%w: the role %s of token %q may not %s; use a token of another role", haulier.ErrForbidden, c.role, c.name, permissionNames[p])
}

// everywhere: the caller is not bound to a tenant.
func (c caller) everywhere() bool { return c.tenant == anyTenant }

// own is the one tenant that is meant by a name in a request: none means the
// caller's, or the default tenant of a caller that has none.
func (c caller) own(asked string) (string, error) {
	switch {
	case asked == "" && c.everywhere():
		return haulier.DefaultTenant, nil
	case asked == "":
		return c.tenant, nil
	case c.everywhere() && asked != anyTenant, asked == c.tenant && asked != anyTenant:
		return asked, nil
	case asked == anyTenant && c.everywhere():
		return "", &haulier.FieldError{Field: "tenant", Msg: "must name one tenant here"}
	}
	return "", c.foreign(asked)
}

// scope is what tenants a request may look at: none named means all of the caller's; "" is all there are.
func (c caller) scope(asked string) (string, error) {
	switch {
	case c.everywhere() && (asked == "" || asked == anyTenant):
		return "", nil
	case asked == "":
		return c.tenant, nil
	case c.everywhere() || asked == c.tenant:
		return asked, nil
	}
	return "", c.foreign(asked)
}

func (c caller) foreign(asked string) error {
	return fmt.Errorf("%w: token %q is for the tenant %q, not for %q; leave the tenant out or use another token", haulier.ErrForbidden, c.name, c.tenant, clip(asked))
}
