package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/haulier/haulier"
)

// advice is what to do when etcd answers with one of its errors.
var advice = []struct {
	err  error
	kind error
	what string
}{
	{rpctypes.ErrNoSpace, haulier.ErrUnavailable, "its space is used up: compact and defragment it, or raise --quota-backend-bytes, then etcdctl alarm disarm"},
	{rpctypes.ErrCorrupt, haulier.ErrUnavailable, "a member has found its data corrupt; look at etcdctl alarm list"},
	{rpctypes.ErrTooManyOps, haulier.ErrTooLarge, "more records are to be written in one step than it takes; make the batch smaller, or start etcd with --max-txn-ops=16384"},
	{rpctypes.ErrRequestTooLarge, haulier.ErrTooLarge, "more bytes are to be written in one step than it takes; make the batch smaller, or start etcd with --max-request-bytes=33554432"},
	{rpctypes.ErrPermissionDenied, haulier.ErrUnavailable, "the user of the URL lacks permission; it needs to read and write all keys with the prefix"},
	{rpctypes.ErrAuthFailed, haulier.ErrUnavailable, "user or password of the URL are wrong"},
	{rpctypes.ErrUserEmpty, haulier.ErrUnavailable, "it wants a user and password; put them into the URL, as in etcd://user:password@host:2379"},
	{rpctypes.ErrNoLeader, haulier.ErrUnavailable, "it has no leader; bring its members back"},
}

// translate turns an error of the client into one of ours. They are told apart by their codes.
func translate(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	known := rpctypes.Error(err)
	for _, a := range advice {
		if errors.Is(known, a.err) {
			return fmt.Errorf("etcd: %w: %s (%v)", a.kind, a.what, err)
		}
	}
	if noHistory(known) {
		return fmt.Errorf("%w (%v)", errHistory, err)
	}
	switch codeOf(err) {
	case codes.ResourceExhausted: // gRPC refuses what is much too large, before etcd sees it
		return fmt.Errorf("etcd: %w: a request has more bytes than it takes; make the batch smaller, or start etcd with --max-request-bytes=33554432 (%v)", haulier.ErrTooLarge, err)
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("etcd: %w: it does not let this user in; look at user and password of the URL (%v)", haulier.ErrUnavailable, err)
	case codes.InvalidArgument, codes.Unimplemented, codes.OutOfRange, codes.NotFound, codes.FailedPrecondition:
		return fmt.Errorf("etcd: %v", err)
	}
	return fmt.Errorf("etcd: %w: no answer; is it running, and can it be reached? (%v)", haulier.ErrUnavailable, err)
}

func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("etcd: %w: %s", haulier.ErrCorrupt, fmt.Sprintf(format, args...))
}
