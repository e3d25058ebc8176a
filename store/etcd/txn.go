package etcd

import (
	"context"
	"errors"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/haulier/haulier"
)

// callOptions let a request wait for a connection, and have any size: it is etcd that bounds it.
var callOptions = []grpc.CallOption{
	grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(math.MaxInt32), grpc.MaxCallRecvMsgSize(math.MaxInt32),
}

// Messages are built without the client's functions, which copy each of them several times.

func putOp(key string, value []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: value}}}
}

func deleteOp(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}

func rangeOp(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func txnOp(ops []*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: ops}}}
}

// A comparison holds when the key's revision is what it was; when the key was written so often since it was made; when there is none
// from a key on and before another; or when there is one.

func unchanged(key string, revision int64) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}
}

func written(key string, times int64) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: times}}
}

func absent(key, before string) *pb.Compare {
	c := &pb.Compare{Key: []byte(key), Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{}}
	if before != "" {
		c.RangeEnd = []byte(before)
	}
	return c
}

func present(key string) *pb.Compare {
	c := absent(key, "")
	c.Result = pb.Compare_GREATER
	return c
}

// branch is how many operations stand side by side. etcd counts, for its --max-txn-ops, the operations of a transaction and those
// of the deepest within it, but not all of a tree: of 128, four levels of 32 remain, a million operations.
const branch = 32

// tree makes few operations of many, which happen in the same step and order. At most width remain.
func tree(ops []*pb.RequestOp, width int) []*pb.RequestOp {
	for len(ops) > width {
		above := make([]*pb.RequestOp, 0, len(ops)/branch+1)
		for part := range slices.Chunk(ops, branch) {
			above = append(above, txnOp(part))
		}
		ops = above
	}
	return ops
}

// write carries out operations if all comparisons hold; otherwise done is false.
func (s *Store) write(ctx context.Context, compares []*pb.Compare, ops []*pb.RequestOp) (revision int64, done bool, err error) {
	r, err := s.send(ctx, &pb.TxnRequest{Compare: compares, Success: tree(ops, max(branch, len(compares)))})
	if err != nil {
		return 0, false, err
	}
	return r.Header.Revision, r.Succeeded, nil
}

// send sends a transaction, once: what may have been carried out is not repeated.
func (s *Store) send(ctx context.Context, request *pb.TxnRequest) (*pb.TxnResponse, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := s.kv.Txn(limited, request, callOptions...)
	if refusedToken(err) { // the client has a new one by now
		r, err = s.kv.Txn(limited, request, callOptions...)
	}
	return r, translate(ctx, err)
}

func refusedToken(err error) bool {
	return err != nil && errors.Is(rpctypes.Error(err), rpctypes.ErrInvalidAuthToken)
}

// readRounds bounds how often a read is sent when connections are lost.
const readRounds = 4

// again repeats what only reads.
func (s *Store) again(ctx context.Context, call func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var err error
	for range readRounds {
		if err = call(limited); !refusedToken(err) {
			if err = translate(ctx, err); !errors.Is(err, haulier.ErrUnavailable) || limited.Err() != nil {
				return err
			}
		}
	}
	return err
}

// read carries out reads, at one revision, and returns their answers in order.
func (s *Store) read(ctx context.Context, reads ...*pb.RangeRequest) (answers []*pb.RangeResponse, err error) {
	answers, _, err = s.readAt(ctx, reads...)
	return answers, err
}

// readAt is read, and says at which revision.
func (s *Store) readAt(ctx context.Context, reads ...*pb.RangeRequest) (answers []*pb.RangeResponse, revision int64, err error) {
	if len(reads) == 1 {
		err := s.again(ctx, func(ctx context.Context) error {
			r, err := s.kv.Range(ctx, reads[0], callOptions...)
			if err == nil {
				answers, revision = []*pb.RangeResponse{r}, r.Header.Revision
			}
			return err
		})
		return answers, revision, err
	}
	ops := make([]*pb.RequestOp, len(reads))
	for i, r := range reads {
		ops[i] = rangeOp(r)
	}
	request := &pb.TxnRequest{Success: tree(ops, branch)}
	err = s.again(ctx, func(ctx context.Context) error {
		r, err := s.kv.Txn(ctx, request, callOptions...)
		if err == nil {
			answers, revision = ranges(make([]*pb.RangeResponse, 0, len(reads)), r.Responses), r.Header.Revision
		}
		return err
	})
	return answers, revision, err
}

// ranges gathers the answers of a tree.
func ranges(out []*pb.RangeResponse, answers []*pb.ResponseOp) []*pb.RangeResponse {
	for _, a := range answers {
		if t := a.GetResponseTxn(); t != nil {
			out = ranges(out, t.Responses)
		} else {
			out = append(out, a.GetResponseRange())
		}
	}
	return out
}

// maxGets is how many keys are read at once.
const maxGets = 4096

// gets reads keys; those that do not exist are nil. Keys that are read in different requests may be of different revisions.
func (s *Store) gets(ctx context.Context, keys []string, keysOnly bool) ([]*mvccpb.KeyValue, error) {
	out := make([]*mvccpb.KeyValue, 0, len(keys))
	for part := range slices.Chunk(keys, maxGets) {
		reads := make([]*pb.RangeRequest, len(part))
		for i, key := range part {
			reads[i] = &pb.RangeRequest{Key: []byte(s.prefix + key), KeysOnly: keysOnly}
		}
		answers, err := s.read(ctx, reads...)
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			if len(a.Kvs) == 0 {
				out = append(out, nil)
			} else {
				out = append(out, a.Kvs[0])
			}
		}
	}
	return out, nil
}

// span reads up to n keys from one on, and before another.
func (s *Store) span(from, before string, n int, keysOnly bool) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(s.prefix + from), RangeEnd: []byte(s.prefix + before), Limit: int64(n), KeysOnly: keysOnly}
}
