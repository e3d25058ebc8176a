package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// Jobs implements haulier.Store.
func (s *Store) Jobs(ctx context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	jobs, err := s.jobs(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return jobs, nil
}

// pipeline is how many commands are sent before their answers are awaited.
const pipeline = 1000

func (s *Store) jobs(ctx context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	jobs := make([]*haulier.Job, 0, len(ids))
	for part := range slices.Chunk(ids, pipeline) {
		values, err := s.values(ctx, part)
		if err != nil {
			return nil, translate(ctx, err)
		}
		a := answer{items: values}
		for range part {
			spec, status := a.text(), a.text()
			if a.bad != nil {
				return nil, a.bad
			}
			if spec == "" || status == "" {
				jobs = append(jobs, nil)
				continue
			}
			j, err := parseJob(spec, status)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// values reads both values of jobs.
func (s *Store) values(ctx context.Context, ids []haulier.ID) ([]rueidis.RedisMessage, error) {
	keys := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		text := id.String()
		keys = append(keys, s.prefix+"job:"+text, s.prefix+"status:"+text)
	}
	return again(ctx, func() rueidis.RedisResult {
		return s.client.Do(ctx, s.client.B().Mget().Key(keys...).Build())
	}).ToArray()
}

// Bands implements haulier.Store.
func (s *Store) Bands(ctx context.Context) ([]haulier.BandHead, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	reply, err := s.read(ctx, bandsScript).ToArray()
	if err != nil {
		return nil, fmt.Errorf("bands: %w", translate(ctx, err))
	}
	a := answer{items: reply}
	heads := make([]haulier.BandHead, 0, len(reply)/3)
	for a.more() {
		band, err := parseBand(a.text())
		if err != nil {
			return nil, fmt.Errorf("bands: %w", err)
		}
		heads = append(heads, haulier.BandHead{Band: band, N: a.micros(), Since: time.UnixMicro(a.micros()).UTC()})
	}
	return heads, a.bad
}

// Counts implements haulier.Store.
func (s *Store) Counts(ctx context.Context) ([]haulier.Count, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	fields, err := s.ask(ctx, "HGETALL", "counts").AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("counts: %w", translate(ctx, err))
	}
	counts := make([]haulier.Count, 0, len(fields))
	for field, text := range fields {
		c, err := parseCount(field, text)
		if err != nil {
			return nil, fmt.Errorf("counts: %w", err)
		}
		counts = append(counts, c)
	}
	return counts, nil
}

func parseCount(field, text string) (c haulier.Count, err error) {
	state, lane, _ := strings.Cut(field, ":")
	if c.State, err = parseState(state); err != nil {
		return c, err
	}
	if c.Lane, err = parseLane(lane); err != nil {
		return c, err
	}
	if c.N, err = strconv.ParseInt(text, 10, 64); err != nil {
		return c, corrupt("%.30q is no number of jobs", text)
	}
	return c, nil
}

// Due implements haulier.Store.
func (s *Store) Due(ctx context.Context, limit int) (haulier.Due, error) {
	if err := s.enter(); err != nil {
		return haulier.Due{}, err
	}
	defer s.leave()
	reply, err := s.read(ctx, dueScript, s.floorText(), strconv.Itoa(max(limit, 0))).ToArray()
	if err != nil {
		return haulier.Due{}, fmt.Errorf("due: %w", translate(ctx, err))
	}
	a := answer{items: reply}
	s.see(a.micros())
	var due haulier.Due
	for _, ids := range []*[]haulier.ID{&due.Timers, &due.Sessions, &due.Purge} {
		for _, text := range a.texts() {
			id, err := haulier.ParseID(text)
			if err != nil {
				return haulier.Due{}, corrupt("due: %.50q is no id", text)
			}
			*ids = append(*ids, id)
		}
		if text := a.text(); text != "" && a.bad == nil {
			us, err := parseMicros(text)
			if err != nil {
				return haulier.Due{}, fmt.Errorf("due: %w", err)
			}
			if at := time.UnixMicro(us).UTC(); due.Next.IsZero() || at.Before(due.Next) {
				due.Next = at
			}
		}
	}
	return due, a.bad
}

// Doc implements haulier.Store.
func (s *Store) Doc(ctx context.Context, kind haulier.DocKind, key string) (haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return haulier.Doc{}, err
	}
	defer s.leave()
	text, err := s.ask(ctx, "HGET", "doc:"+string(kind), key).ToString()
	if rueidis.IsRedisNil(err) {
		return haulier.Doc{}, fmt.Errorf("document %s %s: %w", kind, key, haulier.ErrNotFound)
	}
	if err != nil {
		return haulier.Doc{}, fmt.Errorf("document %s %s: %w", kind, key, translate(ctx, err))
	}
	return parseDoc(kind, key, text)
}

func parseDoc(kind haulier.DocKind, key, text string) (haulier.Doc, error) {
	rev, value, ok := strings.Cut(text, " ")
	n, err := strconv.ParseUint(rev, 10, 64)
	if !ok || err != nil {
		return haulier.Doc{}, corrupt("document %s %s begins with no revision", kind, key)
	}
	return haulier.Doc{Kind: kind, Key: key, Rev: n, Value: []byte(value)}, nil
}

// Docs implements haulier.Store.
func (s *Store) Docs(ctx context.Context, kind haulier.DocKind, prefix, after string, limit int) ([]haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	low, high := "[", "+"
	if low += prefix; after >= prefix {
		low = "(" + after
	}
	if end := following(prefix); end != "" {
		high = "(" + end
	}
	reply, err := s.read(ctx, docsScript, string(kind), low, high, strconv.Itoa(max(limit, 0))).ToArray()
	if err != nil {
		return nil, fmt.Errorf("documents %s: %w", kind, translate(ctx, err))
	}
	a := answer{items: reply}
	docs := make([]haulier.Doc, 0, len(reply)/2)
	for a.more() {
		d, err := parseDoc(kind, a.text(), a.text())
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, a.bad
}

// following is the first text after all that have the prefix; "": there is none.
func following(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
