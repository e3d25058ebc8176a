package main

import (
	"context"
	"errors"
	"net"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

// localName is the name of the token that a server leaves for this user's commands.
const localName = "local"

// letIn makes a token for the commands of this user on this machine and leaves
// it where they look. Those of earlier runs, which a killed server could
// not take back, end. The returned function takes it back.
func (n *node) letIn(ctx context.Context, s *settings, at net.Addr) (func(), error) {
	if err := n.endLocalTokens(ctx); err != nil {
		return nil, err
	}
	t, secret, err := n.engine.CreateToken(ctx, haulier.Token{Name: localName, Role: haulier.RoleAdmin, Tenant: "*"})
	if err != nil {
		return nil, err
	}
	remove, err := client.LeaveToken(localURL(at), secret, s.env)
	if err != nil {
		return nil, errors.Join(err, n.engine.RevokeToken(ctx, "", t.ID))
	}
	return func() {
		remove()
		if err := n.engine.RevokeToken(context.WithoutCancel(ctx), "", t.ID); err != nil {
			n.log.Warn("token of this machine's commands not revoked", "err", err)
		}
	}, nil
}

func (n *node) endLocalTokens(ctx context.Context) error {
	all, err := n.engine.Tokens(ctx, "")
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Name == localName {
			if err := n.engine.RevokeToken(ctx, "", t.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasTokens reports whether anybody was given a token by hand.
func (n *node) hasTokens(ctx context.Context) (bool, error) {
	all, err := n.engine.Tokens(ctx, "")
	for _, t := range all {
		if t.Name != localName {
			return true, err
		}
	}
	return false, err
}
