package etcd

import (
	"context"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/haulier/haulier"
)

// part is an index that is read to make the view.
type part struct {
	prefix string
	values bool // they are needed
	take   func(kv *mvccpb.KeyValue, key string) error
}

// load makes the view of what etcd has, and starts the feed from there.
func (s *Store) load(ctx context.Context) error {
	v := s.view
	parts := []part{
		{"ready/", false, v.loadReady}, {"timer/", true, v.loadTimer}, {"owned/", true, v.loadOwned}, {"blocked/", true, v.loadBlocked},
		{"done/", false, v.loadDone}, {"purge/", false, v.loadPurge}, {"lease/", true, v.loadLease},
	}
	reads := make([]*pb.RangeRequest, len(parts), len(parts)+2)
	for i := range parts {
		reads[i] = parts[i].read(s, parts[i].prefix, 0)
	}
	reads = append(reads, s.logRead(), &pb.RangeRequest{Key: []byte(s.prefix + "counts")})
	answers, revision, err := s.readAt(ctx, reads...) // so a small store takes one request
	if err != nil {
		return err
	}
	at := revision // of what was read; revision is that from which on the log is followed
	log, counts := answers[len(parts)], answers[len(parts)+1]
	large := false
	for i := range parts[:len(parts)-1] { // the leases are not in a snapshot
		large = large || answers[i].More
	}
	if large {
		found, err := s.saved(ctx, counts)
		if err != nil {
			return err
		}
		if found != nil {
			v.restore(found)
			parts, answers, revision = parts[len(parts)-1:], answers[len(parts)-1:], found.Revision
		}
	}
	for i := range parts {
		if err := s.whole(ctx, &parts[i], at, answers[i]); err != nil {
			return err
		}
	}
	v.at = max(v.at, revision)
	s.feed.start(revision)
	if len(log.Kvs) == 0 {
		return nil
	}
	if err := s.feed.await(ctx, log.Kvs[0].ModRevision); err != nil {
		s.feed.close()
		return err
	}
	return nil
}

// read reads the next page of keys, as of a revision; 0: the newest.
func (p *part) read(s *Store, from string, revision int64) *pb.RangeRequest {
	r := s.span(from, following(p.prefix), s.page, !p.values)
	r.Revision = revision
	return r
}

// whole takes all keys as of a revision, of which the first page has been read.
func (s *Store) whole(ctx context.Context, p *part, revision int64, got *pb.RangeResponse) error {
	for {
		for _, kv := range got.Kvs {
			if err := p.take(kv, string(kv.Key[len(s.prefix)+len(p.prefix):])); err != nil {
				return err
			}
		}
		if !got.More {
			return nil
		}
		last := string(got.Kvs[len(got.Kvs)-1].Key[len(s.prefix):])
		answers, err := s.read(ctx, p.read(s, last+"\x00", revision))
		if err != nil {
			return err
		}
		got = answers[0]
	}
}

// cutBehind cuts a key behind its nth slash.
func cutBehind(key string, n int) (before, after string, err error) {
	at := -1
	for range n {
		i := strings.IndexByte(key[at+1:], '/')
		if i < 0 {
			return "", "", corrupt("%.300q is no key of an index", key)
		}
		at += i + 1
	}
	return key[:at], key[at+1:], nil
}

func (v *view) loadReady(_ *mvccpb.KeyValue, key string) error {
	band, at, err := cutBehind(key, 5)
	if err != nil {
		return err
	}
	b, err := parseBand(band)
	if err != nil {
		return err
	}
	v.band(b).add(at)
	v.count(b.Lane, haulier.Pending, 1)
	return nil
}

func (v *view) loadLane(text string, s haulier.State) error {
	lane, err := parseLane(text)
	if err == nil {
		v.count(lane, s, 1)
	}
	return err
}

func (v *view) loadTimer(kv *mvccpb.KeyValue, key string) error {
	v.timers.add(key)
	return v.loadLane(string(kv.Value), haulier.Scheduled)
}

func (v *view) loadOwned(kv *mvccpb.KeyValue, _ string) error {
	name, lane, _ := strings.Cut(string(kv.Value), " ")
	s, err := parseState(name)
	if err != nil {
		return err
	}
	return v.loadLane(lane, s)
}

func (v *view) loadBlocked(kv *mvccpb.KeyValue, _ string) error {
	return v.loadLane(string(kv.Value), haulier.Blocked)
}

func (v *view) loadDone(_ *mvccpb.KeyValue, key string) error {
	place, _, err := cutBehind(key, 5)
	if err != nil {
		return err
	}
	name, lane, _ := strings.Cut(place, "/")
	s, err := parseState(name)
	if err != nil {
		return err
	}
	return v.loadLane(lane, s)
}

func (v *view) loadPurge(_ *mvccpb.KeyValue, key string) error {
	v.purges.add(key)
	return nil
}

// loadLease lets a lease begin anew: this server has not heard when it was last renewed.
func (v *view) loadLease(kv *mvccpb.KeyValue, key string) error {
	id, err := haulier.ParseID(key)
	if err != nil {
		return corrupt("lease/%.80s ends with no id", key)
	}
	ttl, err := time.ParseDuration(string(kv.Value))
	if err != nil {
		return corrupt("lease/%s: %.80q is no duration", key, kv.Value)
	}
	v.leases[id] = v.now().Add(ttl)
	return nil
}

func parseState(text string) (s haulier.State, err error) {
	if s.UnmarshalText([]byte(text)) != nil {
		return 0, corrupt("%.30q is no state", text)
	}
	return s, nil
}
