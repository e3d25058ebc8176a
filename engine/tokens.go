package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// A token's secret is "hlr_", the token's id without hyphens, "_" and 32 random
// bytes in base64url. Only the SHA-256 of the whole is kept: the random part has
// 256 bits, so a slow hash would add nothing.
const (
	secretPrefix = "hlr_"
	tokenCache   = 5 * time.Second // how long another server's revocation may go unnoticed, should the word of it get lost
	maxCached    = 10_000
)

type tokenDoc struct {
	haulier.Token
	Hash []byte `json:"hash"`
}

// tokens remembers what was read of the store for a moment.
type tokens struct {
	store haulier.Store
	mu    sync.Mutex
	known map[haulier.ID]cachedToken
}

type cachedToken struct {
	doc   tokenDoc
	until time.Time
}

func newTokens(s haulier.Store) *tokens {
	return &tokens{store: s, known: map[haulier.ID]cachedToken{}}
}

func (t *tokens) get(ctx context.Context, id haulier.ID) (tokenDoc, error) {
	now := time.Now()
	t.mu.Lock()
	c, ok := t.known[id]
	t.mu.Unlock()
	if ok && now.Before(c.until) {
		return c.doc, nil
	}
	d, err := t.store.Doc(ctx, haulier.DocToken, id.String())
	if err != nil {
		return tokenDoc{}, err
	}
	var v tokenDoc
	if err := json.Unmarshal(d.Value, &v); err != nil {
		return v, fmt.Errorf("token %v: %w: %w", id, haulier.ErrCorrupt, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxCached {
		clear(t.known)
	}
	t.known[id] = cachedToken{v, now.Add(tokenCache)}
	return v, nil
}

// clear forgets all.
func (t *tokens) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.known)
}

func (t *tokens) forget(id haulier.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, id)
}

// Authenticate implements haulier.Authenticator.
func (e *Engine) Authenticate(ctx context.Context, secret string) (haulier.Token, error) {
	unknown := fmt.Errorf("token: %w: it is not known, was revoked or has expired; make one with `haulier token create`", haulier.ErrUnauthenticated)
	id, ok := secretID(secret)
	if !ok {
		return haulier.Token{}, unknown
	}
	d, err := e.tokens.get(ctx, id)
	if errors.Is(err, haulier.ErrNotFound) {
		return haulier.Token{}, unknown
	}
	if err != nil {
		return haulier.Token{}, fmt.Errorf("token: %w", err)
	}
	sum := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(sum[:], d.Hash) != 1 || !d.ExpiresAt.IsZero() && time.Now().After(d.ExpiresAt) {
		return haulier.Token{}, unknown
	}
	return d.Token, nil
}

// secretID reads the id out of a secret.
func secretID(secret string) (haulier.ID, bool) {
	rest, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok || len(rest) < 33 || len(rest) > 200 || rest[32] != '_' {
		return haulier.NilID, false
	}
	h := rest[:32]
	id, err := haulier.ParseID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
	return id, err == nil
}

// CreateToken implements haulier.Operator.
func (e *Engine) CreateToken(ctx context.Context, t haulier.Token) (haulier.Token, string, error) {
	now, err := e.now(ctx)
	if err != nil {
		return t, "", err
	}
	if t.Tenant == "" {
		t.Tenant = haulier.DefaultTenant
	}
	switch {
	case !slices.Contains(haulier.Roles, t.Role):
		return t, "", field("role", fmt.Sprintf("%.30q is none of %v", t.Role, haulier.Roles))
	case t.Name == "" || len(t.Name) > haulier.MaxName:
		return t, "", field("name", fmt.Sprintf("is empty or longer than %d bytes: say who or what the token is for", haulier.MaxName))
	case !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(now):
		return t, "", field("expires_at", "has passed already")
	}
	if t.Tenant != "*" {
		if err := checkName("tenant", t.Tenant); err != nil {
			return t, "", err
		}
	}
	t.ID, t.CreatedAt = haulier.NewID(now), now
	var random [32]byte
	rand.Read(random[:])
	secret := secretPrefix + strings.ReplaceAll(t.ID.String(), "-", "") + "_" + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	value, err := json.Marshal(tokenDoc{Token: t, Hash: sum[:]})
	if err != nil {
		return t, "", err
	}
	err = e.store.Commit(ctx, &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{{Kind: haulier.DocToken, Key: t.ID.String(), Value: value}}})
	if err != nil {
		return t, "", fmt.Errorf("create token: %w", err)
	}
	return t, secret, nil
}

// Tokens implements haulier.Operator.
func (e *Engine) Tokens(ctx context.Context, tenant string) ([]haulier.Token, error) {
	var out []haulier.Token
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocToken, "", after, 500)
		if err != nil {
			return nil, fmt.Errorf("list tokens: %w", err)
		}
		if len(docs) == 0 {
			return out, nil
		}
		for _, d := range docs {
			after = d.Key
			var v tokenDoc
			if err := json.Unmarshal(d.Value, &v); err != nil {
				return nil, fmt.Errorf("token %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			if tenant == "" || v.Tenant == tenant {
				out = append(out, v.Token)
			}
		}
	}
}

// RevokeToken implements haulier.Operator.
func (e *Engine) RevokeToken(ctx context.Context, tenant string, id haulier.ID) error {
	e.tokens.forget(id)
	d, err := e.tokens.get(ctx, id)
	if err == nil && tenant != "" && d.Tenant != tenant {
		err = haulier.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("token %v: %w", id, err)
	}
	err = e.store.Commit(ctx, &haulier.Batch{Sync: true, Tell: true, Docs: []haulier.DocWrite{{Kind: haulier.DocToken, Key: id.String(), Expect: haulier.AnyRev}}})
	e.tokens.forget(id)
	if err != nil {
		return fmt.Errorf("token %v: %w", id, err)
	}
	return nil
}
