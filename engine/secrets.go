package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

// DocSecret is the kind of a secret's document. Its key is tenant/name.
const DocSecret haulier.DocKind = "secret"

// secret is its document.
type secret struct {
	Value     string    `json:"value"`
	UpdatedAt time.Time `json:"updated_at"`
}

// SetSecret implements haulier.Gatekeeper.
func (e *Engine) SetSecret(ctx context.Context, tenant, name, value string) (haulier.Secret, error) {
	tenant = tenantOr(tenant)
	if err := first(
		func() error { return checkName("tenant", tenant) },
		func() error { return checkName("name", name) },
	); err != nil {
		return haulier.Secret{}, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return haulier.Secret{}, err
	}
	out := haulier.Secret{Tenant: tenant, Name: name, UpdatedAt: now.UTC().Truncate(time.Second)}
	if value == "" {
		value = webhook.NewSecret()
		out.Value = value
	}
	if _, err := webhook.Key(value); err != nil {
		return haulier.Secret{}, err
	}
	doc, err := json.Marshal(secret{Value: value, UpdatedAt: out.UpdatedAt})
	if err != nil {
		return haulier.Secret{}, err
	}
	w := haulier.DocWrite{Kind: DocSecret, Key: tenant + "/" + name, Expect: haulier.AnyRev, Value: doc}
	if err := e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}, Sync: true}); err != nil {
		return haulier.Secret{}, fmt.Errorf("secret %s: %w", name, err)
	}
	return out, nil
}

// Secrets implements haulier.Gatekeeper.
func (e *Engine) Secrets(ctx context.Context, tenant string) ([]haulier.Secret, error) {
	prefix := tenantOr(tenant) + "/"
	var out []haulier.Secret
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, DocSecret, prefix, after, 500)
		if err != nil {
			return nil, fmt.Errorf("secrets: %w", err)
		}
		if len(docs) == 0 {
			return out, nil
		}
		for i := range docs {
			after = docs[i].Key
			s, err := parseSecret(&docs[i])
			if err != nil {
				return nil, err
			}
			out = append(out, haulier.Secret{Tenant: prefix[:len(prefix)-1], Name: after[len(prefix):], UpdatedAt: s.UpdatedAt})
		}
	}
}

func parseSecret(d *haulier.Doc) (s secret, err error) {
	if err := json.Unmarshal(d.Value, &s); err != nil {
		return s, fmt.Errorf("secret %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	return s, nil
}

// DeleteSecret implements haulier.Gatekeeper.
func (e *Engine) DeleteSecret(ctx context.Context, tenant, name string) error {
	return e.deleteDoc(ctx, DocSecret, tenantOr(tenant), name)
}

// deleteDoc removes what is kept under a tenant and a name.
func (e *Engine) deleteDoc(ctx context.Context, kind haulier.DocKind, tenant, name string) error {
	key := tenant + "/" + name
	if _, err := e.store.Doc(ctx, kind, key); err != nil {
		if errors.Is(err, haulier.ErrNotFound) {
			return fmt.Errorf("%s %s: %w: `haulier %ss list` shows those of tenant %s", kind, name, haulier.ErrNotFound, kind, tenant)
		}
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	w := haulier.DocWrite{Kind: kind, Key: key, Expect: haulier.AnyRev}
	if err := e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}, Sync: true, Tell: true}); err != nil {
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return nil
}

// keyOf is what a tenant's secret signs with. ErrNotFound: there is none of that name.
func (e *Engine) keyOf(ctx context.Context, tenant, name string) ([]byte, error) {
	d, err := e.store.Doc(ctx, DocSecret, tenant+"/"+name)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	s, err := parseSecret(&d)
	if err != nil {
		return nil, err
	}
	return webhook.Key(s.Value)
}

// sign puts signatures into claimed jobs that call an address and name a secret. One that is not there shows when the job runs.
func (e *Engine) sign(ctx context.Context, jobs []haulier.Job) error {
	var keys map[string][]byte // by tenant/name; nil: there is none
	for i := range jobs {
		t := jobs[i].Task.HTTP
		if t == nil || t.Secret == "" {
			continue
		}
		name := jobs[i].Tenant + "/" + t.Secret
		key, ok := keys[name]
		if !ok {
			var err error
			if key, err = e.keyOf(ctx, jobs[i].Tenant, t.Secret); err != nil && !errors.Is(err, haulier.ErrNotFound) {
				return fmt.Errorf("claim: %w", err)
			}
			if keys == nil {
				keys = map[string][]byte{}
			}
			keys[name] = key
		}
		if key != nil {
			signWith(key, &jobs[i].Spec)
		}
	}
	return nil
}

func signWith(key []byte, s *haulier.Spec) {
	t := *s.Task.HTTP // what the store gave may be its own
	header := webhook.Sign(key, s.ID.String(), time.Now(), t.Body(s.Payload))
	t.Headers = maps.Clone(t.Headers)
	if t.Headers == nil {
		t.Headers = header
	} else {
		maps.Copy(t.Headers, header)
	}
	s.Task.HTTP = &t
}
