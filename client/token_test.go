package client_test

import (
	"errors"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

func TestTokensOpenWhatTheirRoleAllows(t *testing.T) {
	e := newEngine(t)
	addr := serve(t, e, e, "127.0.0.1:0").addr
	ctx := t.Context()
	token := func(c *client.Client, role haulier.Role, tenant string) *client.Client {
		t.Helper()
		made, secret, err := c.CreateToken(ctx, haulier.Token{Name: string(role), Role: role, Tenant: tenant})
		if err != nil || made.ID.IsNil() || secret == "" {
			t.Fatal(made, err)
		}
		return dial(t, addr, secret)
	}
	_, secret, err := e.CreateToken(ctx, haulier.Token{Name: "root", Role: haulier.RoleAdmin, Tenant: "*"})
	if err != nil {
		t.Fatal(err)
	}
	root := dial(t, addr, secret)
	producer, viewer := token(root, haulier.RoleProducer, "acme"), token(root, haulier.RoleViewer, "acme")
	id := add(t, producer, haulier.Spec{Type: "mail"})[0]
	jobs, err := viewer.Get(ctx, "", []haulier.ID{id})
	if err != nil || jobs[0] == nil || jobs[0].Tenant != "acme" || jobs[0].History[0].By != "producer" {
		t.Fatalf("job %+v, %v", jobs[0], err)
	}
	if _, err := viewer.Cancel(ctx, haulier.Selection{IDs: []haulier.ID{id}}, "", ""); !errors.Is(err, haulier.ErrForbidden) {
		t.Errorf("a viewer cancelled: %v", err)
	}
	if _, err := viewer.Enqueue(ctx, one("")); !errors.Is(err, haulier.ErrForbidden) {
		t.Errorf("a viewer enqueued: %v", err)
	}
	if _, err := producer.Counts(ctx, "other"); !errors.Is(err, haulier.ErrForbidden) {
		t.Errorf("another tenant was read: %v", err)
	}
	if _, err := dial(t, addr, "").Queues(ctx, ""); !errors.Is(err, haulier.ErrUnauthenticated) {
		t.Errorf("without a token: %v", err)
	}
	list, err := root.Tokens(ctx, "acme")
	if err != nil || len(list) != 2 {
		t.Fatalf("tokens %+v, %v", list, err)
	}
	for _, tok := range list {
		if err := root.RevokeToken(ctx, "", tok.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := viewer.Queues(ctx, ""); !errors.Is(err, haulier.ErrUnauthenticated) {
		t.Errorf("with a revoked token: %v", err)
	}
	if err := root.RevokeToken(ctx, "", list[0].ID); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
}
