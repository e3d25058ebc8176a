package server

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

func (s *Server) tokenOperations() []operation {
	return []operation{
		{id: "createToken", method: http.MethodPost, path: "/v1/tokens", tag: "tokens", need: operate, summary: "Make a token",
			doc: "The secret is shown this once.", body: tokenBody{}, status: http.StatusCreated, reply: newToken{}, do: (*call).createToken},
		{id: "listTokens", method: http.MethodGet, path: "/v1/tokens", tag: "tokens", need: operate, summary: "List tokens, without their secrets",
			query: []param{tenantParam}, reply: tokenList{}, do: (*call).listTokens},
		{id: "revokeToken", method: http.MethodDelete, path: "/v1/tokens/{id}", tag: "tokens", need: operate, summary: "End a token at once",
			query: []param{tenantParam}, do: (*call).revokeToken},
	}
}

type tokenBody struct {
	Name      string       `json:"name" doc:"who or what it is for; stands in histories"`
	Role      haulier.Role `json:"role" doc:"admin, producer, worker or viewer"`
	Tenant    string       `json:"tenant,omitempty" doc:"the asking token's unless said; * for all tenants"`
	ExpiresAt time.Time    `json:"expires_at,omitzero" doc:"never unless said"`
}

type newToken struct {
	Token  haulier.Token `json:"token"`
	Secret string        `json:"secret" doc:"what its holder sends; kept nowhere"`
}

type tokenList struct {
	Tokens []haulier.Token `json:"tokens"`
}

func (c *call) createToken() error {
	var body tokenBody
	if err := c.readJSON(&body); err != nil {
		return err
	}
	if !slices.Contains(haulier.Roles, body.Role) {
		return &haulier.FieldError{Field: "role", Msg: fmt.Sprintf("%q is none of %v", clip(string(body.Role)), haulier.Roles)}
	}
	tenant := body.Tenant
	if tenant != anyTenant || !c.who.everywhere() {
		var err error
		if tenant, err = c.who.own(body.Tenant); err != nil {
			return err
		}
	}
	t, secret, err := c.Queue.CreateToken(c.ctx(), haulier.Token{Name: body.Name, Role: body.Role, Tenant: tenant, ExpiresAt: body.ExpiresAt})
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusCreated, newToken{Token: t, Secret: secret})
}

func (c *call) listTokens() error {
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	list, err := c.Queue.Tokens(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, tokenList{Tokens: orNone(list)})
}

func (c *call) revokeToken() error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	if err := c.Queue.RevokeToken(c.ctx(), tenant, id); err != nil {
		return err
	}
	return c.replyNone()
}
