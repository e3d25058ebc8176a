package server_test

import (
	"context"

	"github.com/haulier/haulier"
)

func (r *recorder) SetHandler(_ context.Context, h haulier.Handler, by string) (haulier.Handler, error) {
	return h, r.note("set handler %s/%s by %q", h.Tenant, h.Type, by)
}

func (r *recorder) Handlers(_ context.Context, tenant string) ([]haulier.Handler, error) {
	return nil, r.note("handlers of %s", tenant)
}

func (r *recorder) Handler(_ context.Context, tenant, typ string, version int) (haulier.Handler, error) {
	return haulier.Handler{}, r.note("handler %s/%s version %d", tenant, typ, version)
}

func (r *recorder) HandlerVersions(_ context.Context, tenant, typ string) ([]haulier.Handler, error) {
	return nil, r.note("versions of handler %s/%s", tenant, typ)
}

func (r *recorder) RollbackHandler(_ context.Context, tenant, typ string, version int, by string) (haulier.Handler, error) {
	return haulier.Handler{}, r.note("roll back handler %s/%s to %d by %q", tenant, typ, version, by)
}

func (r *recorder) DeleteHandler(_ context.Context, tenant, typ string) error {
	return r.note("delete handler %s/%s", tenant, typ)
}
